// Holds many requests at once, and tells what each costs this process. Arguments: the way, the number, the database.
import { setTimeout as delay } from 'node:timers/promises'
import { createOnce, reply } from 'oncekey'
import { fromPg, postgresStore } from 'oncekey/postgres'
import pg from 'pg'

const [way, count, url] = process.argv.slice(2) as [string, string, string]
const gc = globalThis.gc as () => void
const pool = new pg.Pool({ connectionString: url, max: 16 })
const once = createOnce({ store: postgresStore(fromPg(pool)), lease: '60s' })
const answer = reply(201, { note: 'a'.repeat(280) })

/** One request whose handler waits until `end` is called. */
async function request(end: Promise<unknown>, started: () => void): Promise<void> {
  const handler = async () => {
    started()
    await end
    return answer
  }
  if (way === 'bare') return void (await handler())
  const key = crypto.randomUUID()
  const fingerprint = { method: 'POST', path: '/orders', value: { item: 'tea' } }
  await once.execute({ tenant: 'bench', scope: 'orders.create', key, fingerprint, afterFailure: 'rerun' }, handler)
}

async function hold(number: number): Promise<{ live: number; rss: number; end(): Promise<void> }> {
  let running = 0
  let allRun: () => void = () => {}
  const allStarted = new Promise<void>((resolve) => {
    allRun = resolve
  })
  let end: () => void = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  const started = () => {
    running += 1
    if (running === number) allRun()
  }
  const requests = Array.from({ length: number }, () => request(ended, started))
  await Promise.race([allStarted, Promise.all(requests)])
  const live = await used()
  return {
    ...live,
    async end() {
      end()
      await Promise.all(requests)
    },
  }
}

async function used(): Promise<{ live: number; rss: number }> {
  await delay(50)
  gc()
  gc()
  const { heapUsed, external, rss } = process.memoryUsage()
  return { live: heapUsed + external, rss }
}

// All code is compiled and all connections are open before it counts.
await (await hold(1_000)).end()
const before = await used()
const held = await hold(Number(count))
await held.end()
const after = await used()
await pool.end()
console.log(JSON.stringify({ bytes: held.live - before.live, residentBytes: held.rss - before.rss, leftBytes: after.live - before.live }))
