// An orders service that never charges twice. Nothing to install: Postgres runs inside the process (PGlite), with its files in
// .data/. Set DATABASE_URL to use a server of your own instead.
import { mkdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import { PGlite } from '@electric-sql/pglite'
import { serve } from 'oncekey/node'
import { type Connection, fromPg, fromPglite, migrate } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import pg from 'pg'
import { ordersService, tables } from './orders.js'
import { fakeProvider } from './provider.js'

if (process.env.DATABASE_URL) {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
  pool.on('error', (error) => console.error('a connection broke:', error.message))
  await start(fromPg(pool))
} else {
  const folder = process.env.DATA_DIR ?? '.data/quickstart'
  await mkdir(folder, { recursive: true })
  const pglite = await PGlite.create(folder)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => pglite.close().finally(() => process.exit(0)))
  await start(fromPglite(pglite))
}

async function start<Tx>(database: Connection<Tx>) {
  await migrate(database)
  await database.query(tables, [])
  const provider = fakeProvider()
  const { once, createOrder } = ordersService(database, provider)
  const postOrder = serve(createOrder, { tenant: 'single' })
  // An order whose client never comes back is finished all the same.
  workers(once).start()

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const send = (status: number, body: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    try {
      if (request.method === 'POST' && pathname === '/orders') {
        await postOrder(request, response)
      } else if (request.method === 'GET' && pathname === '/orders') {
        const orders = await database.query('select id::text as id, item, charge_id from orders', [])
        send(200, { charges: provider.charges(), orders })
      } else if (request.method === 'GET' && pathname.startsWith('/keys/')) {
        send(200, await once.history({ tenant: 'single', scope: 'orders.create', key: pathname.slice('/keys/'.length) }))
      } else {
        send(404, { error: 'try POST /orders' })
      }
    } catch (error) {
      console.error(error)
      send(500, { error: 'something went wrong; send the same request again, and it resumes' })
    }
  })

  server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => printWhatToTry((server.address() as { port: number }).port))
}

function printWhatToTry(port: number) {
  const url = `http://localhost:${port}`
  const post = `curl -i ${url}/orders -H 'Content-Type: application/json'`
  const order = (item: string, key = 'order-1') => `${post} -H 'Idempotency-Key: ${key}' -d '{"item":"${item}"}'`
  console.log(`Ready on ${url}. Try it in another terminal:

  an order             ${order('tea')}
  the same, again      (the same line: same answer, byte for byte, with Idempotent-Replayed: true)
  another body         ${order('coffee')}
  a declined card      ${order('declined', 'order-2')}
  the story of a key   curl ${url}/keys/order-1
  orders and charges   curl ${url}/orders

Send one order fifty times at once: one runs, the others are told to wait.

  seq 50 | xargs -P 50 -I_ ${order('slow', 'order-3').replace('-i', '-s')}

Or stop the server (Ctrl-C, kill -9) in the middle of a slow order, start it again, and it resumes: at once
when you send the order again, or by itself within half a minute.
`)
}
