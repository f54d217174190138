// A consumer of a BullMQ queue. The queue delivers at least once: again after an error, and again when a worker dies in the middle of a
// job, or between its commit and its acknowledgement. Each message has its effect once.
import { setTimeout } from 'node:timers/promises'
import { type Job, Worker } from 'bullmq'
import { createOnce, type Message, reply } from 'oncekey'
import { fromPg, migrate, postgresStore } from 'oncekey/postgres'
import { workers } from 'oncekey/workers'
import pg from 'pg'

/** What the producer puts into the queue. The id is the message's own: the same in each delivery, and in no other message. */
type Payment = Message<{ account: string; cents: number }>

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })
pool.on('error', (error) => console.error('a connection broke:', error.message))

const database = fromPg(pool)
await migrate(database)
await pool.query(`
  create table if not exists payments (message text, account text, cents integer);
  create table if not exists refunds (message text, refund text);
  create table if not exists provider_refunds (key text primary key, account text)`)

const once = createOnce({ store: postgresStore(database), logger: console })

// Work that only writes to your database: the note that it is done and the work are one commit.
const onPaid = once.consumer('payments.received', { tenant: 'single', retention: '30d' }, async (tx, { id, body }: Payment) => {
  await tx.query('insert into payments values ($1, $2, $3)', [id, body.account, body.cents])
})

// Work that touches the outside world: an operation, with the message's id as its key. After a crash the redelivery resumes it.
const refund = once.operation('payments.refund', { retention: '30d' }, async (run, input) => {
  const { id, body } = input as Payment
  await run.phase('refund_noted', (tx) => tx.query('insert into refunds values ($1)', [id]).then(() => {}))
  const made = await run.call('refund_made', ({ key, signal }) => provider.refund(body.account, { idempotencyKey: key, signal }))
  return run.finish(async (tx) => {
    await tx.query('update refunds set refund = $2 where message = $1', [id, made.id])
    return reply(204)
  })
})

/** STAND-IN for your payment provider. It knows idempotency keys, as Stripe and Adyen do, and remembers them in a table of its own. */
const provider = {
  async refund(account: string, { idempotencyKey, signal }: { idempotencyKey: string; signal: AbortSignal }) {
    await pool.query('insert into provider_refunds values ($1, $2) on conflict do nothing', [idempotencyKey, account])
    if (account === 'slow') await setTimeout(2_000, undefined, { signal })
    return { id: `re_${idempotencyKey.slice(0, 8)}` }
  },
}

/** What returns is acknowledged; what throws is delivered again, as often as the job's `attempts` say. */
async function handle({ name, data }: Job<Payment>): Promise<string> {
  if (name === 'paid') return (await onPaid.handle(data)).kind
  if (name !== 'refund') throw new Error(`nobody handles ${name}`)
  // Longer than a lease: what a worker that died has begun is free then, and resumes here.
  const { kind } = await refund.run({ tenant: 'single', key: data.id, input: data, wait: '20s' })
  if (kind !== 'executed' && kind !== 'replayed') throw new Error(`the refund ${data.id} is ${kind}`)
  return kind
}

const worker = new Worker<Payment, string>('payments', handle, {
  connection: { url: process.env.REDIS_URL ?? 'redis://localhost:6379' },
  concurrency: 10,
  // How often BullMQ looks for jobs of workers that have died.
  stalledInterval: Number(process.env.STALLED_INTERVAL_MS ?? 30_000),
})
worker.on('error', (error) => console.error(error.message))
worker.on('completed', (job, kind) => console.log(`${job.name} ${job.data.id}: ${kind}`))
await worker.waitUntilReady()
console.log('Ready')

// Finishes what nobody delivers again, and deletes what is remembered when its retention is over.
const background = workers(once)
background.start()
process.once('SIGTERM', async () => {
  await Promise.all([worker.close(), background.stop(), once.stop({ within: '20s' })])
  await pool.end()
})
