// An orders service that never charges twice. Nothing to install: Postgres runs inside the process (PGlite), with its files in
// .data/. Set DATABASE_URL to use a server of your own instead.
import { mkdir } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { PGlite } from '@electric-sql/pglite'
import { type Answer, isOncekeyError, type OperationOutcome, reply } from 'oncekey'
import { type Connection, fromPg, fromPglite, migrate } from 'oncekey/postgres'
import pg from 'pg'
import { ordersService, tables } from './orders.js'
import { fakeProvider } from './provider.js'

if (process.env.DATABASE_URL) {
  const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
  pool.on('error', (error) => console.error('a connection broke:', error.message))
  await serve(fromPg(pool))
} else {
  const folder = process.env.DATA_DIR ?? '.data/quickstart'
  await mkdir(folder, { recursive: true })
  const pglite = await PGlite.create(folder)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => pglite.close().finally(() => process.exit(0)))
  await serve(fromPglite(pglite))
}

async function serve<Tx>(database: Connection<Tx>) {
  await migrate(database)
  await database.query(tables, [])
  const provider = fakeProvider()
  const { once, createOrder } = ordersService(database, provider)

  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://localhost')
    const key = String(request.headers['idempotency-key'] ?? '')
    try {
      if (request.method === 'POST' && pathname === '/orders') {
        const input: unknown = JSON.parse(await textOf(request))
        return respond(response, await createOrder.run({ tenant: 'demo', key, input }))
      }
      if (request.method === 'GET' && pathname === '/orders') {
        const orders = await database.query('select id::text as id, item, charge_id from orders', [])
        return send(response, reply(200, { charges: provider.charges(), orders }))
      }
      if (request.method === 'GET' && pathname.startsWith('/keys/')) {
        const story = await once.history({ tenant: 'demo', scope: 'orders.create', key: pathname.slice('/keys/'.length) })
        return send(response, reply(200, story))
      }
      send(response, reply(404, { error: 'try POST /orders' }))
    } catch (error) {
      if (isOncekeyError(error)) return send(response, reply(error.status, { code: error.code, message: error.message }))
      send(response, reply(400, { error: String(error) }))
    }
  })

  server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => printWhatToTry((server.address() as { port: number }).port))
}

/** The contract in a few lines. */
function respond(response: ServerResponse, outcome: OperationOutcome<Answer>) {
  switch (outcome.kind) {
    case 'executed':
      return send(response, outcome.answer)
    case 'replayed':
      return send(response, { ...outcome.answer, headers: [...outcome.answer.headers, ['idempotent-replayed', 'true']] })
    case 'in-progress':
      return send(
        response,
        reply(409, { error: 'still working on it' }, { 'retry-after': String(Math.ceil(outcome.retryAfterMs / 1000) || 1) }),
      )
    case 'mismatch':
      return send(response, reply(422, { error: `this key was used with another ${outcome.part}` }))
    case 'parked':
      return send(response, outcome.answer)
    case 'invalid':
      return send(response, reply(400, { issues: outcome.issues }))
  }
}

function send(response: ServerResponse, { status, headers, body }: Answer) {
  for (const [name, value] of headers) response.appendHeader(name, value)
  response.writeHead(status).end(body)
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

function printWhatToTry(port: number) {
  const url = `http://localhost:${port}`
  const order = (item: string, key = 'order-1') => `curl -i ${url}/orders -H 'Idempotency-Key: ${key}' -d '{"item":"${item}"}'`
  console.log(`Ready on ${url}. Try it in another terminal:

  an order             ${order('tea')}
  the same, again      (the same line: same answer, byte for byte, with Idempotent-Replayed: true)
  another body         ${order('coffee')}
  a declined card      ${order('declined', 'order-2')}
  the story of a key   curl ${url}/keys/order-1
  orders and charges   curl ${url}/orders

Send one order fifty times at once: one runs, the others are told to wait.

  seq 50 | xargs -P 50 -I_ curl -s ${url}/orders -H 'Idempotency-Key: order-3' -d '{"item":"slow"}'

Or stop the server (Ctrl-C, kill -9) in the middle of a slow order, start it again, and send the order again: it resumes.
`)
}
