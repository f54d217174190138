import { createFingerprinter, type KeyClaim } from 'oncekey'
import { type Connection, type FromPgOptions, fromPg, type PostgresStore, type PostgresStoreOptions, postgresStore } from 'oncekey/postgres'
import type { Contender } from '../harness/contender.js'
import { closedLoop } from '../harness/load.js'
import type { BenchServer } from '../harness/server.js'

export const storeNames = {
  batched: 'oncekey',
  unbatched: 'oncekey, batch: false, pool of 16',
  unprepared: 'oncekey, prepare: false',
  unbatchedUnprepared: 'oncekey, batch: false, prepare: false, pool of 16',
} as const

/** The store alone: claims a new key and finishes it with an answer of 300 bytes. */
export function storeContenders(server: BenchServer): Contender[] {
  const contender = (name: string, options: FromPgOptions, storeOptions: PostgresStoreOptions): Contender => {
    const store = postgresStore(fromPg(server.pool(16), options) as Connection<unknown>, storeOptions)
    return { name, run: (turn) => closedLoop(turn, server.cpu, () => claimAndFinish(store)) }
  }
  return [
    contender(storeNames.batched, {}, {}),
    contender(storeNames.unbatched, {}, { batch: false }),
    contender(storeNames.unprepared, { prepare: false }, {}),
    contender(storeNames.unbatchedUnprepared, { prepare: false }, { batch: false }),
  ]
}

const body = Buffer.alloc(300, 'a')
const fingerprint = createFingerprinter()({ method: 'POST', path: '/orders', value: { item: 'tea', quantity: 2 } })
const retention = { ms: 86_400_000, floorMs: 0, from: 'creation' } as const

/** Spelled out: copies made with three dots would be a part of what is measured. */
export function claimOf(key: string, tenant = 'bench'): KeyClaim {
  return {
    tenant,
    scope: 'orders.create',
    key,
    owner: crypto.randomUUID(),
    fingerprint,
    leaseMs: 60_000,
    retention,
    afterFailure: 'rerun',
    request: null,
    worker: false,
  }
}

export async function claimAndFinish(store: PostgresStore<unknown>, key: string = crypto.randomUUID()): Promise<void> {
  const verdict = await store.keyClaim(claimOf(key))
  if (verdict.kind !== 'execute') throw new Error(`a new key was claimed, and the verdict is "${verdict.kind}"`)
  const answer = { status: 201, headers: [['content-type', 'application/json']] as [string, string][], body }
  const result = await store.keyFinish({ lease: verdict.lease, state: 'complete', answer, retention })
  if (result !== 'done') throw new Error(`a key was finished, and the result is "${result}"`)
}
