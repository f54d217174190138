// A receiver of Standard Webhooks: the signature is verified first, and each event is taken in once, however often it is delivered.
import { createServer } from 'node:http'
import { createOnce, type Message } from 'oncekey'
import { standardWebhooks, webhook } from 'oncekey/node'
import { fromPg, migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import pg from 'pg'
import { Webhook } from 'standardwebhooks'
import { z } from 'zod'

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', (error) => console.error('a connection broke:', error.message))

const database = fromPg(pool)
await migrate(database)
await pool.query('create table if not exists balances (account text primary key, cents bigint not null)')

const once = createOnce({ store: postgresStore(database), logger: console })

/** An event of the sender's, as this service understands it. What it does not understand throws, and is delivered again. */
const Paid = z.object({ type: z.literal('invoice.paid'), account: z.string(), cents: z.number().int() })

// Key and work are one commit: a delivery that comes again, be it at the same moment or in another process, adds nothing.
const onEvent = once.consumer('partner.events', { tenant: 'single', retention: '30d' }, async (tx, { id, body }: Message) => {
  const { account, cents } = Paid.parse(body)
  await tx.query('insert into balances values ($1, $2) on conflict (account) do update set cents = balances.cents + excluded.cents', [
    account,
    cents,
  ])
  console.log(`${id}: ${cents} cents for ${account}`)
})

// While a secret is being replaced, pass both: standardWebhooks([new Webhook(current), new Webhook(previous)]).
const receive = webhook(onEvent, {
  verify: standardWebhooks(new Webhook(process.env.WEBHOOK_SECRET ?? '')),
  onRefused: (error) => console.warn('a delivery was refused:', String(error)),
})

const server = createServer(async (request, response) => {
  if (request.method === 'POST' && request.url === '/webhooks') return receive(request, response)
  if (request.method !== 'GET' || request.url !== '/balances') return response.writeHead(404).end()
  const { rows } = await pool.query('select account, cents::integer from balances order by account')
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(rows))
})

const port = Number(process.env.PORT ?? 3000)
server.listen(port, () => console.log(`Ready on http://localhost:${port}`))

// Deletes what is remembered of events when their retention is over.
const background = workers(once)
background.start()
process.once('SIGTERM', async () => {
  server.close()
  await Promise.all([background.stop(), once.stop({ within: '20s' })])
  await pool.end()
})
