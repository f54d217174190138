import type pg from 'pg'
import { createOnce, type KeyRef, type Once, type OnceEvent, type OnceOptions, reply } from '../../src/index.js'
import { type PostgresStoreOptions, postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'

type Tx = pg.PoolClient

/** Longer than any test may take: time passes by `advance()` only. */
export const leaseMs = 600_000

/** A service on the test's database, with a tenant of its own. */
export async function setup(database: TestDatabase, options: Partial<OnceOptions<Tx>> & PostgresStoreOptions & { pool?: pg.Pool } = {}) {
  const { pool = database.pool, audit, distributed, ...onceOptions } = options
  const storeOptions = { ...(audit ? { audit } : {}), ...(distributed ? { distributed } : {}) }
  const { advance } = await postgresHarness(connectionTo(database.pool))
  // Every test is a process of its own, and the one before it is gone.
  await database.pool.query(`update oncekey.upkeep set holder = null, held_until = '-infinity'`)
  const events: OnceEvent[] = []
  const newOnce = (): Once<Tx> =>
    createOnce<Tx>({
      store: postgresStore(connectionTo(pool), storeOptions),
      lease: leaseMs,
      onEvent: (event) => events.push(event),
      ...onceOptions,
    })
  const once = newOnce()
  const tenant = `tenant-${crypto.randomUUID()}`
  const store = postgresStore(connectionTo(database.pool))

  return {
    once,
    /** Another process, or this one after a deploy. */
    newOnce,
    store,
    tenant,
    advance,
    events,
    eventsOf: (type: OnceEvent['type']) => events.filter((event) => event.type === type),
    /** Claims a key and leaves it, as a process that is killed does. */
    async abandon(key: string, changes: Partial<Parameters<typeof store.keyClaim>[0]> = {}) {
      const verdict = await store.keyClaim({
        ...{ tenant, scope: 'pay', key, owner: crypto.randomUUID(), fingerprint: null, leaseMs, afterFailure: 'rerun', request: null },
        ...{ retention: { ms: 86_400_000, from: 'creation', floorMs: 3_600_000 }, worker: false },
        ...changes,
      } as Parameters<typeof store.keyClaim>[0])
      if (verdict.kind !== 'execute') throw new Error(`the key was ${verdict.kind}`)
      return verdict.lease
    },
    record: (key: string, scope = 'pay') => store.keyRead({ tenant, scope, key } satisfies KeyRef),
  }
}

export const paid = () => reply(201, { paid: true })
