// What can be read of the service. No keys here: a GET changes nothing, so it may come as often as it likes.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { keyId } from 'oncekey'
import { type Connection, postgresOperator } from 'oncekey/postgres'
import { addressOf, sendJson } from './http.js'

const columns = `id::text as id, item, cents, customer, note, charge_id, refund_id, receipt_sent_at is not null as receipt_sent`

export function reading(database: Connection<unknown>) {
  const operator = postgresOperator(database)
  const named = (request: IncomingMessage) => decodeURIComponent(addressOf(request).pathname.split('/')[2] as string)

  return {
    async orders(request: IncomingMessage, response: ServerResponse) {
      const customer = addressOf(request).searchParams.get('customer')
      const orders = await database.query(`select ${columns} from orders where $1::text is null or customer = $1 limit 100`, [customer])
      sendJson(response, 200, { orders })
    },

    async order(request: IncomingMessage, response: ServerResponse) {
      const [order] = await database.query(`select ${columns} from orders where id = $1::uuid`, [named(request)])
      sendJson(response, order ? 200 : 404, order ?? { error: 'order_unknown' })
    },

    async exported(request: IncomingMessage, response: ServerResponse) {
      const [found] = await database.query('select csv from exports where id = $1::uuid', [named(request)])
      if (found) response.writeHead(200, { 'content-type': 'text/csv; charset=utf-8' }).end(found.csv)
      else sendJson(response, 404, { error: 'export_unknown' })
    },

    /** The story of a key of POST /orders: where it is, its steps, and all that happened to it. */
    async key(request: IncomingMessage, response: ServerResponse) {
      const id = keyId({ tenant: 'single', scope: 'orders.create', key: named(request) })
      const story = await operator.keyStory({ tenant: 'single', id })
      if (!story) return sendJson(response, 404, { error: 'key_unknown' })
      const { now, key, steps, trail, jobs } = story
      const { state, recoveryPoint, fence, leaseUntil, answerStatus } = key
      const leaseLeftMs = leaseUntil === null ? null : Math.max(0, Math.round(leaseUntil - now))
      sendJson(response, 200, { state, recoveryPoint, fence, leaseLeftMs, answerStatus, steps, trail, jobs })
    },
  }
}
