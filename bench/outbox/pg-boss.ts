import PgBoss from 'pg-boss'
import type { BenchServer } from '../harness/server.js'
import { connections, type Outbox, payloadOf } from './contender.js'

/**
 * Latency in its documented use, `work()` at the shortest interval that it takes. That interval is also between two batches, so throughput is
 * measured with `fetch()` and `complete()` in two loops, which is the fastest that it offers.
 */
export async function pgBossOutbox(server: BenchServer): Promise<Outbox> {
  const pool = server.pool(2)
  const boss = new PgBoss({ connectionString: server.url, max: connections, supervise: false, schedule: false })
  boss.on('error', () => {})
  await boss.start()
  await boss.createQueue('bench')
  type Payload = { job: number }
  return {
    name: 'pg-boss 10',
    async fill(jobs) {
      for (let from = 0; from < jobs; from += 1_000) {
        await boss.insert(
          Array.from({ length: Math.min(1_000, jobs - from) }, (_, index) => ({ name: 'bench', data: payloadOf(from + index + 1) })),
        )
      }
    },
    async stage(job) {
      const client = await pool.connect()
      await client.query('begin')
      await boss.send('bench', payloadOf(job), { db: { executeSql: (text, values) => client.query(text, values) } })
      await client.query('commit')
      const committedAt = performance.now()
      client.release()
      return committedAt
    },
    async deliver(handle, mode) {
      if (mode === 'latency') {
        await boss.work<Payload>('bench', { pollingIntervalSeconds: 0.5, batchSize: 200 }, async (jobs) => {
          for (const { data } of jobs) handle(data.job)
        })
        return { stop: () => boss.offWork('bench') }
      }
      let isStopping = false
      const loops = [1, 2].map(async () => {
        while (!isStopping) {
          const jobs = await boss.fetch<Payload>('bench', { batchSize: 200 })
          for (const { data } of jobs) handle(data.job)
          if (jobs.length > 0)
            await boss.complete(
              'bench',
              jobs.map(({ id }) => id),
            )
        }
      })
      return {
        async stop() {
          isStopping = true
          await Promise.all(loops)
        },
      }
    },
    async left() {
      const { rows } = await pool.query(`select count(*)::integer as left from pgboss.job where name = 'bench' and state < 'completed'`)
      return rows[0].left
    },
    async clear() {
      await boss.clearStorage()
    },
    async close() {
      await boss.stop({ graceful: false, wait: false })
    },
  }
}
