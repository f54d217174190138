import { fillRows } from './fill.js'
import type { Layout } from './layouts.js'
import { type Bench, emptyTables, measureRound, type Round } from './round.js'
import { type Turns, tailShare, wholeTable } from './side-by-side.js'
import { createSubject, dropSubject } from './subjects.js'
import { type Spread, type Summary, spread, summarise } from './summary.js'

export interface TwinResult {
  /** Time of a claim and finish on the full table, over the time on an empty one. */
  timeRatio: Spread
  /** The same for the round that begins at a checkpoint, when every index page is written to the WAL whole once more. */
  timeRatioAfterCheckpoint: number
  afterCheckpoint: Round
  full: Summary
  empty: Summary
}

/** One big table at a time, to bound the disk; its rounds alternate with those of an empty twin. */
export async function besideEmptyTwin(bench: Bench, layout: Layout, { rows, rounds, concurrency }: Turns) {
  const { admin, lanes } = bench
  const full = await createSubject(bench, layout, 'full')
  const twin = await createSubject(bench, layout, 'empty')
  const onTwin = async () => {
    await emptyTables(admin, twin)
    return measureRound(bench, twin, concurrency)
  }

  await fillRows(lanes.slice(0, 2), full, rows)
  await admin.query(`vacuum (analyze) ${full.copy.tables.join(', ')}`)
  console.error(`  ${full.name}: vacuumed`)
  await onTwin()
  await admin.query('checkpoint')
  const afterCheckpoint = await measureRound(bench, full, concurrency)
  const twinAfterCheckpoint = await onTwin()

  await fillRows(lanes.slice(0, 2), full, Math.ceil(rows * tailShare))
  await measureRound(bench, full, concurrency)
  const onFullTable: Round[] = []
  const onEmptyTable: Round[] = []
  for (let round = 1; round <= rounds; round++) {
    if (round % 2) onFullTable.push(await measureRound(bench, full, concurrency))
    onEmptyTable.push(await onTwin())
    if (round % 2 === 0) onFullTable.push(await measureRound(bench, full, concurrency))
    console.error(`  ${layout.name}, ${rows} rows: round ${round} of ${rounds}`)
  }

  const result: TwinResult = {
    timeRatio: spread(onFullTable.map((round, index) => (onEmptyTable[index] as Round).perSecond / round.perSecond)),
    timeRatioAfterCheckpoint: twinAfterCheckpoint.perSecond / afterCheckpoint.perSecond,
    afterCheckpoint,
    full: summarise(layout.name, onFullTable, onEmptyTable, await wholeTable(bench, full)),
    empty: summarise(layout.name, onEmptyTable, onEmptyTable),
  }
  await dropSubject(admin, full)
  await dropSubject(admin, twin)
  await admin.query('checkpoint')
  return result
}
