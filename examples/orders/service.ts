// The orders service: its operations behind HTTP, and the background work that finishes what clients leave behind.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createOnce } from 'oncekey'
import { serve, status } from 'oncekey/node'
import { migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import { fetchThatMayBeTheLast, listen } from './child-process.js'
import { createTables, openDatabase, tables } from './database.js'
import { exportOrders } from './export.js'
import { addressOf, sendJson } from './http.js'
import { changeNote, createOrder } from './orders.js'
import { paymentsAt } from './payments.js'
import { reading } from './reading.js'
import { receipts } from './receipts.js'
import { refundOrder } from './refunds.js'

const { connection: database, close } = await openDatabase(process.env.FOLDER ?? '.data/orders/service')
await migrate(database)
await createTables(database, tables)
const payments = paymentsAt({ url: process.env.PROVIDER as string, account: 'with-oncekey', fetch: fetchThatMayBeTheLast })

// A short lease, so that nobody has to wait for long after a crash. The default is 15 s. The trail is what /keys/… tells.
const once = createOnce({ store: postgresStore(database, { audit: true }), lease: '3s' })
const background = workers(once, { sweeper: { every: '2s' }, relay: { sinks: { send_receipt: receipts(database) } } })

// An error that an operation throws is not stored: the key is given back at its recovery point, and the next attempt resumes there.
const onError = (error: unknown, _: IncomingMessage, response: ServerResponse) => {
  console.error(`  oncekey: ${error instanceof Error ? error.message : error}; the same request again goes on`)
  sendJson(response, 500, { error: 'interrupted', hint: 'Send the same request with the same key again: it goes on.' })
}
// One customer of ours, so one tenant. A real service takes it from the authenticated caller.
const common = { tenant: 'single', onError } as const
const order = (request: IncomingMessage) => addressOf(request).pathname.split('/')[2]

const read = reading(database)

const routes: [pattern: RegExp, handle: (request: IncomingMessage, response: ServerResponse) => unknown][] = [
  [/^POST \/orders$/, serve(createOrder(once, database, payments), common)],
  [
    /^POST \/orders\/[^/]+\/refund$/,
    serve(refundOrder(once, database, payments), { ...common, input: (request) => ({ order: order(request) }) }),
  ],
  [
    /^PATCH \/orders\/[^/]+$/,
    serve(changeNote(once, database), { ...common, input: (request, body) => ({ ...(body as object), order: order(request) }) }),
  ],
  [/^POST \/exports$/, serve(exportOrders(once, database), { ...common, respond: 'async', location: (id) => `/operations/${id}` })],
  [/^GET \/operations\/[^/]+$/, status(once, common)],
  [/^GET \/orders$/, read.orders],
  [/^GET \/orders\/[\da-f-]{36}$/, read.order],
  [/^GET \/exports\/[\da-f-]{36}$/, read.exported],
  [/^GET \/keys\/[^/]+$/, read.key],
]

background.start()
listen(
  async (request, response) => {
    const asked = `${request.method} ${addressOf(request).pathname}`
    const [, handle] = routes.find(([pattern]) => pattern.test(asked)) ?? []
    try {
      if (handle) await handle(request, response)
      else sendJson(response, 404, { error: 'not_found' })
    } catch (error) {
      onError(error, request, response)
    }
  },
  async () => {
    await Promise.all([background.stop(), once.stop({ within: '1s' })])
    await close()
  },
)
