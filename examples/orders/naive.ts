// The same service without oncekey, written as most are, and nothing in it looks wrong. Its crash window is between the charge and the
// update: who comes again after that is a new customer to it.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { fetchThatMayBeTheLast, listen } from './child-process.js'
import { createTables, naiveTables, openDatabase } from './database.js'
import { addressOf, jsonBody, sendJson } from './http.js'
import { OrderInput } from './orders.js'
import { paymentsAt } from './payments.js'

const { connection: database, close } = await openDatabase(process.env.FOLDER ?? '.data/orders/naive')
await createTables(database, naiveTables)
const payments = paymentsAt({ url: process.env.PROVIDER as string, account: 'without-oncekey', fetch: fetchThatMayBeTheLast })

async function createOrder(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { data: input } = OrderInput.safeParse(await jsonBody(request))
  if (!input) return sendJson(response, 400, { error: 'input_invalid' })
  const { item, cents, customer } = input
  const [order] = await database.query('insert into naive_orders (item, cents, customer) values ($1, $2, $3) returning id::text as id', [
    item,
    cents,
    customer,
  ])
  // A key, even: a fresh one for each attempt, so that the provider cannot recognise any.
  const charge = await payments.charge({ customer, cents, reference: order?.id }, { key: randomUUID() })
  if (charge.declined) return sendJson(response, 402, { error: 'card_declined', order: order?.id })
  await database.query('update naive_orders set charge_id = $2 where id = $1::uuid', [order?.id, charge.id])
  sendJson(response, 201, { id: order?.id, item, cents, charge: charge.id })
}

listen(async (request, response) => {
  const { pathname, searchParams } = addressOf(request)
  try {
    if (request.method === 'POST' && pathname === '/orders') await createOrder(request, response)
    else if (request.method === 'GET' && pathname === '/orders') {
      const customer = searchParams.get('customer')
      const text =
        'select id::text as id, item, cents, customer, charge_id from naive_orders where $1::text is null or customer = $1 limit 100'
      sendJson(response, 200, { orders: await database.query(text, [customer]) })
    } else sendJson(response, 404, { error: 'not_found' })
  } catch (error) {
    console.error(`  without: ${error instanceof Error ? error.message : error}`)
    sendJson(response, 500, { error: 'something_went_wrong' })
  }
}, close)
