import type pg from 'pg'
import { onTestFinished } from 'vitest'
import { createOnce, type Once, type OnceEvent, type OnceOptions, reply } from '../../src/index.js'
import type { Job, JobFunction } from '../../src/outbox/index.js'
import type { StageOptions } from '../../src/phases/operation-run.js'
import { type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.js'
import { type RelayOptions, relay } from '../../src/workers/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'

type Tx = pg.PoolClient

export interface Staged {
  readonly name?: string
  readonly payload?: unknown
  readonly options?: StageOptions
}

/** A service on the test's database, whose outbox is empty unless it is to be kept. */
export async function setup(database: TestDatabase, options: Partial<OnceOptions<Tx>> & PostgresStoreOptions & { keep?: boolean } = {}) {
  const { keep = false, distributed = false, ...onceOptions } = options
  const { advance } = await postgresHarness(connectionTo(database.pool))
  if (!keep) await database.pool.query('truncate oncekey.jobs')
  const events: OnceEvent[] = []
  const once: Once<Tx> = createOnce<Tx>({
    store: postgresStore(connectionTo(database.pool), { distributed }),
    onEvent: (event) => events.push(event),
    ...onceOptions,
  })
  const tenant = `tenant-${crypto.randomUUID()}`
  const got: Job[] = []
  const operation = once.operation('stage', {}, async (run, input) =>
    run.finish(async (tx) => {
      for (const { name = 'mail', payload = {}, options } of input as Staged[]) await run.stage(tx, name, payload, options)
      return reply(201)
    }),
  )

  return {
    once,
    tenant,
    advance,
    events,
    eventsOf: <Type extends OnceEvent['type']>(type: Type) =>
      events.filter((event): event is Extract<OnceEvent, { type: Type }> => event.type === type),
    /** What the relay delivered so far. */
    got,
    payloads: () => got.map(({ payload }) => payload),
    /** Stages jobs in one commit. */
    stage: (...jobs: Staged[]) => operation.run({ tenant, key: crypto.randomUUID(), input: jobs }),
    /** A relay that notes what it delivers, after `work` had its say. */
    newRelay({ work = () => {}, ...changes }: Partial<RelayOptions> & { work?: JobFunction } = {}) {
      const service = relay(once, {
        async sink(job, options) {
          const delivery = (await work(job, options)) ?? 'delivered'
          if (delivery === 'delivered') got.push(job)
          return delivery
        },
        ...changes,
      })
      // One that a failed test leaves running would take the jobs of the next.
      onTestFinished(async () => void (await service.stop()))
      return service
    },
    async rows() {
      const { rows } = await database.pool.query(
        'select name, payload, job_group, attempts, token, dead_at, last_error from oncekey.jobs order by staged_at, position',
      )
      return rows
    },
  }
}

export const nothing = { delivered: 0, failed: 0, dead: 0, released: 0, unsettled: 0 }
export const down = () => ({ error: new Error('the receiver is down') })
