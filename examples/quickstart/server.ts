// An orders service that never makes an order twice. Nothing to install: Postgres runs inside the process (PGlite), with its
// files in .data/. Set DATABASE_URL to use a server of your own instead.
import { mkdir } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { PGlite } from '@electric-sql/pglite'
import { createOnce, isOncekeyError, type Outcome, reply } from 'oncekey'
import { type Connection, fromPg, fromPglite, migrate, postgresStore } from 'oncekey/postgres'
import pg from 'pg'

if (process.env.DATABASE_URL) {
  await serve(fromPg(new pg.Pool({ connectionString: process.env.DATABASE_URL })))
} else {
  const folder = process.env.DATA_DIR ?? '.data/quickstart'
  await mkdir(folder, { recursive: true })
  const pglite = await PGlite.create(folder)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => pglite.close().finally(() => process.exit(0)))
  await serve(fromPglite(pglite))
}

async function serve<Tx>(database: Connection<Tx>) {
  await migrate(database)
  await database.query('create table if not exists orders (id uuid primary key default gen_random_uuid(), item text)', [])
  const once = createOnce({ store: postgresStore(database), retention: '24h' })

  const server = createServer(async (request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://localhost')
    if (request.method === 'GET' && pathname === '/orders')
      return send(response, reply(200, await database.query('select * from orders', [])))
    if (request.method !== 'POST' || pathname !== '/orders') return send(response, reply(404, { error: 'try POST /orders' }))

    try {
      const body = await bytesOf(request)
      const outcome = await once.execute(
        {
          tenant: 'demo',
          scope: 'orders.create',
          key: String(request.headers['idempotency-key'] ?? ''),
          fingerprint: { method: 'POST', path: pathname, query: search, mediaType: request.headers['content-type'] ?? '', body },
          afterFailure: 'rerun',
        },
        async () => {
          const { item = null, slow = 0 } = JSON.parse(body.toString()) as { item?: string; slow?: number }
          await new Promise((resolve) => setTimeout(resolve, Math.min(slow, 10_000)))
          const [order] = await database.query('insert into orders (item) values ($1) returning id::text as id, item', [item])
          return reply(201, order, { location: `/orders/${order?.id}` })
        },
      )
      respond(response, outcome)
    } catch (error) {
      if (isOncekeyError(error)) return send(response, reply(error.status, { code: error.code, message: error.message }))
      send(response, reply(400, { error: String(error) }))
    }
  })

  server.listen(Number(process.env.PORT ?? 3000), '127.0.0.1', () => printWhatToTry((server.address() as { port: number }).port))
}

/** The contract in a few lines; adapters for the usual frameworks will have it in full. */
function respond(response: ServerResponse, outcome: Outcome) {
  switch (outcome.kind) {
    case 'executed':
      return send(response, outcome.answer)
    case 'replayed':
      return send(response, { ...outcome.answer, headers: [...outcome.answer.headers, ['idempotent-replayed', 'true']] })
    case 'in-progress':
      return send(response, reply(409, { error: 'still working on it' }, { 'retry-after': String(Math.ceil(outcome.retryAfterMs / 1000)) }))
    case 'mismatch':
      return send(response, reply(422, { error: `this key was used with another ${outcome.part}` }))
    case 'parked':
      return send(response, outcome.answer)
  }
}

function send(response: ServerResponse, { status, headers, body }: ReturnType<typeof reply>) {
  for (const [name, value] of headers) response.appendHeader(name, value)
  response.writeHead(status).end(body)
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

function printWhatToTry(port: number) {
  const url = `http://localhost:${port}/orders`
  const order = (item: string) => `curl -i ${url} -H 'Idempotency-Key: order-1' -H 'Content-Type: application/json' -d '{"item":"${item}"}'`
  console.log(`Ready on http://localhost:${port}. Try it in another terminal:

  an order             ${order('tea')}
  the same, again      (the same line: same answer, byte for byte, with Idempotent-Replayed: true)
  another body         ${order('coffee')}
  what was ordered     curl ${url}

Or send one order fifty times at once, and see that it was made once:

  seq 50 | xargs -P 50 -I_ curl -s ${url} -H 'Idempotency-Key: order-2' -H 'Content-Type: application/json' -d '{"item":"cake","slow":500}'
`)
}
