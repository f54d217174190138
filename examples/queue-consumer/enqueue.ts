// STAND-IN for the producer. Say `npx tsx enqueue.ts paid m-1` twice: the queue delivers both, and the second one has no effect.
import { Queue } from 'bullmq'

const [name = 'paid', id = 'm-1', account = 'acme'] = process.argv.slice(2)
const queue = new Queue('payments', { connection: { url: process.env.REDIS_URL ?? 'redis://localhost:6379' } })
await queue.add(name, { id, body: { account, cents: 500 } }, { attempts: 5, backoff: { type: 'exponential', delay: 1_000 } })
await queue.close()
