import { type Connection, fromPg, migrate, type PostgresStore, postgresStore } from 'oncekey/postgres'
import type { Contender, Group } from '../harness/contender.js'
import { closedLoop } from '../harness/load.js'
import { interleave, type Rounds } from '../harness/rounds.js'
import type { BenchServer } from '../harness/server.js'
import { type Spread, spread } from '../layout/summary.js'
import { claimAndFinish } from './store.js'
import { growthTitle } from './titles.js'

export const growthNames = { empty: 'empty table', full: 'full table' } as const

/** Of a fresh table that grows in one run, beside one that is emptied again and again: what its rate is in each later tenth, the second being 1. */
export interface Growing {
  readonly rows: number
  readonly rates: Spread
}

const outstanding = 256
/** Keys that are added behind the checkpoint: enough to touch every page of the index, which is then written to the WAL whole, once. */
const tailShare = 0.03
const chunkRows = 50_000
/** So often in each tenth of its growth a fresh table takes turns with one that stays small. */
const turnsPerTenth = 5

/** Each size in a schema of its own, one at a time to bound the disk; turns alternate with those on the empty table. */
export async function measureGrowth(
  server: BenchServer,
  { rounds, seconds, rows, small }: Rounds & { rows: readonly number[]; small: boolean },
): Promise<{ groups: Group[]; growing: Growing }> {
  const growing = await growFresh(server, small ? 20_000 : 1_000_000)
  const groups: Group[] = []
  for (const count of rows) {
    await server.admin.query('drop schema if exists bench_full cascade')
    const connection = fromPg(server.pool(16)) as Connection<unknown>
    await migrate(connection, { schema: 'bench_full' })
    await fill(server, count)
    const contender = (name: string, schema: string): Contender => {
      const store = postgresStore<unknown>(connection, { schema })
      return { name, run: (turn) => closedLoop(turn, server.cpu, () => claimAndFinish(store)) }
    }
    const contenders = [contender(growthNames.empty, 'oncekey'), contender(growthNames.full, 'bench_full')]
    // No checkpoint in the rounds: after one, every page of the large index that is touched would be written to the WAL whole.
    const prepare = async () => void (await server.admin.query('truncate oncekey.keys cascade'))
    groups.push(await interleave({ title: growthTitle(count), outstanding, rounds, seconds, contenders, prepare }))
    await server.admin.query('drop schema bench_full cascade')
    await server.admin.query('checkpoint')
  }
  return { groups, growing }
}

/**
 * Without ANALYZE by hand. The first tenth is for warming up. A plan that has gone stale would show in the slowest one. The same work on a table
 * that stays small says how fast the machine is at that moment.
 */
async function growFresh(server: BenchServer, rows: number): Promise<Growing> {
  await server.admin.query('drop schema if exists bench_grown cascade')
  const connection = fromPg(server.pool(16)) as Connection<unknown>
  await migrate(connection, { schema: 'bench_grown' })
  const growing = postgresStore<unknown>(connection, { schema: 'bench_grown' })
  const small = postgresStore<unknown>(connection)
  const keys = rows / 10 / turnsPerTenth
  const relative: number[] = []
  for (let tenth = 1; tenth <= 10; tenth += 1) {
    let growingMs = 0
    let smallMs = 0
    for (let turn = 0; turn < turnsPerTenth; turn += 1) {
      await server.admin.query('truncate oncekey.keys cascade')
      smallMs += await timeOf(small, keys)
      growingMs += await timeOf(growing, keys)
    }
    relative.push(smallMs / growingMs)
    console.error(`  a fresh table that grows: ${(rows / 10) * tenth} of ${rows}`)
  }
  await server.admin.query('drop schema bench_grown cascade')
  await server.admin.query('checkpoint')
  return { rows, rates: spread(relative.slice(2).map((rate) => rate / (relative[1] as number))) }
}

/** Milliseconds for so many new keys. */
async function timeOf(store: PostgresStore<unknown>, keys: number): Promise<number> {
  let left = keys
  const lane = async () => {
    while (left > 0) {
      left -= 1
      await claimAndFinish(store)
    }
  }
  const begin = performance.now()
  await Promise.all(Array.from({ length: outstanding }, lane))
  return performance.now() - begin
}

/** Finished keys, as if they had been claimed and finished: as many on a page as batches of 256 leave there. */
async function fill({ admin }: BenchServer, rows: number): Promise<void> {
  await admin.query('alter table bench_full.keys set (fillfactor = 70)')
  await insertKeys(admin, rows)
  const { rows: found } = await admin.query(`select reloptions from pg_class where oid = 'oncekey.keys'::regclass`)
  const standard = (found[0].reloptions as string[]).find((option) => option.startsWith('fillfactor=')) ?? 'fillfactor=100'
  await admin.query(`alter table bench_full.keys set (${standard})`)
  await admin.query('vacuum (analyze) bench_full.keys')
  await admin.query('checkpoint')
  await insertKeys(admin, Math.ceil(rows * tailShare))
}

async function insertKeys(admin: BenchServer['admin'], rows: number): Promise<void> {
  for (let filled = 0; filled < rows; filled += chunkRows) {
    await admin.query(
      `insert into bench_full.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, fingerprint,
                                    created_at, due_at, expires_at, reap_after, answer_status, answer_headers, answer_body)
       select 'bench', gen_random_uuid(), 'orders.create', gen_random_uuid()::text, 'complete', gen_random_uuid(), gen_random_uuid(), 1, 'rerun',
              decode(repeat('ab', 41), 'hex'), time, time, time + interval '1 day', time + interval '1 day', 201,
              '[["content-type","application/json"]]', decode(repeat('61', 300), 'hex')
       from generate_series(1, $1::integer), lateral (select clock_timestamp() as time) as clock`,
      [Math.min(chunkRows, rows - filled)],
    )
    if (filled % 1_000_000 === 0) console.error(`  filling: ${filled} of ${rows} keys`)
  }
}
