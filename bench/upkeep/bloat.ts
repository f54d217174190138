import type pg from 'pg'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { reaper } from '../../src/workers/index.js'
import { sizes, writeKeys } from './written-keys.js'

export interface BloatRound {
  readonly round: number
  readonly reaped: number
  readonly live: number
  readonly heapBytes: number
  readonly indexBytes: number
}

/**
 * Fills and reaps the table again and again; each round finds keys of the rounds before that are still live, and lie between those that
 * are not. Vacuuming is autovacuum's business; it is waited for, as a quiet hour would.
 */
export async function measureBloat(
  pool: pg.Pool,
  { rounds, keys, liveSeconds }: { rounds: number; keys: number; liveSeconds: number },
): Promise<BloatRound[]> {
  const client = await pool.connect()
  await client.query('truncate oncekey.keys')
  const service = reaper(createOnce({ store: postgresStore(fromPg(pool)) }), { perSecond: false })
  const results: BloatRound[] = []
  for (let round = 1; round <= rounds; round += 1) {
    await writeKeys(client, keys, { expireInSeconds: liveSeconds })
    const { reaped = 0 } = await service.runOnce()
    await vacuumed(client)
    const { heapBytes, indexBytes, rows: live } = await sizes(client)
    results.push({ round, reaped, live, heapBytes, indexBytes })
    console.error(`round ${round}: reaped ${reaped}, live ${live}, heap ${mebibytes(heapBytes)}, indexes ${mebibytes(indexBytes)}`)
  }
  client.release()
  return results
}

/** Waits until autovacuum has nothing to come for: it comes when a twentieth of the rows is dead. */
async function vacuumed(client: pg.ClientBase): Promise<void> {
  for (const deadline = performance.now() + 120_000; ; ) {
    await client.query('select pg_stat_force_next_flush()')
    const { rows } = await client.query(
      `select n_dead_tup <= 100 + 0.06 * n_live_tup as done from pg_stat_user_tables where relid = 'oncekey.keys'::regclass`,
    )
    if (rows[0].done) return
    if (performance.now() > deadline) throw new Error('autovacuum did not come')
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

export const mebibytes = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`
