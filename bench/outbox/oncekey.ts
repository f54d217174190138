import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { relay } from '../../src/workers/index.js'
import type { BenchServer } from '../harness/server.js'
import { connections, type Outbox, payloadOf } from './contender.js'

/** `elsewhere`: what is staged is found by looking, as if another process had staged it. */
export function oncekeyOutbox(server: BenchServer, { elsewhere = false } = {}): Outbox {
  const pool = server.pool(connections)
  let committedAt = 0
  const plain = fromPg(pool, { prepare: true })
  const connection: typeof plain = {
    ...plain,
    async transaction(work) {
      const result = await plain.transaction(work)
      committedAt = performance.now()
      return result
    },
  }
  const once = createOnce({ store: postgresStore(connection) })
  const stager = elsewhere ? createOnce({ store: postgresStore(connection) }) : once
  const operation = stager.operation('stage', {}, async (run, input) =>
    run.finish(async (tx) => {
      await run.stage(tx, 'bench', payloadOf(input as number))
      return reply(201)
    }),
  )
  return {
    name: elsewhere ? 'oncekey, staged by another process' : 'oncekey',
    async fill(jobs) {
      await pool.query(
        `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
         select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'bench',
                json_build_object('job', n, 'note', repeat('a', 200))::text, clock_timestamp(), clock_timestamp()
         from generate_series(1, $1::integer) as n`,
        [jobs],
      )
    },
    async stage(job) {
      await operation.run({ tenant: 't', key: crypto.randomUUID(), input: job })
      return committedAt
    },
    async deliver(handle) {
      const service = relay(once, { sink: ({ payload }) => handle((payload as { job: number }).job) })
      service.start()
      return { stop: () => service.stop() }
    },
    async left() {
      return (await pool.query('select count(*)::integer as left from oncekey.jobs')).rows[0].left
    },
    async clear() {
      await pool.query('truncate oncekey.jobs')
    },
    close: async () => {},
  }
}
