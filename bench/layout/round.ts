import type pg from 'pg'
import { type Counters, readCounters } from './counters.js'
import { type Concurrency, claimAndFinish, type Subject } from './workload.js'

export interface Round extends Counters {
  keys: number
  perSecond: number
  /** Processor time of the server; its background processes are not in it. */
  backendCpuMs: number
}

export interface Bench {
  admin: pg.Client
  lanes: readonly pg.Client[]
  seconds: number
  bodyBytes: number
  backendCpuMs(lanes: readonly pg.Client[]): number
}

/** One timed stretch of claims and finishes, with what it did to the server. */
export async function measureRound(
  { admin, lanes, seconds, backendCpuMs }: Bench,
  subject: Subject,
  { lanes: used, batch }: Concurrency,
): Promise<Round> {
  const working = lanes.slice(0, used)
  const before = await readCounters(admin, working, subject)
  const cpuBefore = backendCpuMs(working)
  const { keys, seconds: elapsed } = await claimAndFinish(working, subject, batch, seconds)
  const cpuAfter = backendCpuMs(working)
  const after = await readCounters(admin, working, subject)
  const change = Object.fromEntries(
    Object.entries(after).map(([name, value]) => [name, value - before[name as keyof Counters]]),
  ) as unknown as Counters
  // A finish reads one entry per key, and some of dead rows; a plan that walks the index reads thousands.
  const { strayScans, keyEntriesRead } = change
  if (strayScans > 0 || keyEntriesRead > 10 * keys) {
    const seen = `${strayScans} scans of other indexes or tables, ${keyEntriesRead} index entries for ${keys} keys`
    throw new Error(`${subject.name}: a statement did not go by the key (${seen}). EXPLAIN its prepared statements.`)
  }
  return { keys, perSecond: keys / elapsed, backendCpuMs: cpuAfter - cpuBefore, ...change }
}

export async function emptyTables(admin: pg.Client, { copy }: Subject) {
  await admin.query(`truncate ${copy.tables.join(', ')}`)
}
