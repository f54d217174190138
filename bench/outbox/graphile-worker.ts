import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import type { BenchServer } from '../harness/server.js'
import { connections, type Outbox, payloadOf } from './contender.js'

/** In its documented use: a pool of workers in one process, told of new jobs by NOTIFY. */
export async function graphileWorkerOutbox(server: BenchServer): Promise<Outbox> {
  const pool = server.pool(connections)
  const logger = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ pgPool: pool, logger })
  await utils.migrate()
  return {
    name: 'graphile-worker 0.16',
    async fill(jobs) {
      await pool.query(
        `select graphile_worker.add_job('bench', json_build_object('job', n, 'note', repeat('a', 200))) from generate_series(1, $1::integer) as n`,
        [jobs],
      )
    },
    async stage(job) {
      const client = await pool.connect()
      await client.query('begin')
      await client.query(`select graphile_worker.add_job('bench', $1::json)`, [JSON.stringify(payloadOf(job))])
      await client.query('commit')
      const committedAt = performance.now()
      client.release()
      return committedAt
    },
    async deliver(handle) {
      const taskList = { bench: (payload: unknown) => handle((payload as { job: number }).job) }
      const runner = await run({ pgPool: pool, taskList, logger, concurrency: connections - 2, noHandleSignals: true, pollInterval: 1_000 })
      return { stop: () => runner.stop() }
    },
    async left() {
      return (await pool.query('select count(*)::integer as left from graphile_worker.jobs')).rows[0].left
    },
    async clear() {
      await pool.query('truncate graphile_worker._private_jobs')
    },
    async close() {
      await utils.release()
    },
  }
}
