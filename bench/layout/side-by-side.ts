import { lastCheckpoint } from './counters.js'
import { fillRows } from './fill.js'
import type { Layout } from './layouts.js'
import { type Bench, emptyTables, measureRound, type Round } from './round.js'
import { createSubject, dropSubject } from './subjects.js'
import { type Summary, summarise } from './summary.js'
import type { Concurrency, Subject } from './workload.js'

export interface Section {
  title: string
  rows: number
  concurrency: Concurrency
  summaries: Summary[]
}

export interface Turns {
  rows: number
  rounds: number
  concurrency: Concurrency
}

// Enough that nearly every index page has had its full-page image since the checkpoint: the steady state between two.
export const tailShare = 0.03

/** All layouts in turn, round after round, so that a slow moment of the machine hits each of them. */
export async function sideBySide(bench: Bench, plans: readonly Layout[], turns: Turns): Promise<Section> {
  const { rows, concurrency } = turns
  const subjects: Subject[] = []
  for (const layout of plans) subjects.push(await createSubject(bench, layout, 'keys'))
  if (rows > 0) await fillAll(bench, subjects, rows)
  const measure = () => measureInTurn(bench, subjects, turns)
  const results = await (rows > 0 ? withoutCheckpoint(bench, measure) : measure())

  const reference = results.get(subjects[0] as Subject) as Round[]
  const summaries: Summary[] = []
  for (const [subject, measurements] of results) {
    const whole = rows > 0 ? await wholeTable(bench, subject) : null
    summaries.push(summarise(subject.layout.name, measurements, reference, whole))
    await dropSubject(bench.admin, subject)
  }
  const title = `${rows} rows, relative to ${subjects[0]?.layout.name}`
  return { title, rows, concurrency, summaries }
}

async function measureInTurn(bench: Bench, subjects: readonly Subject[], { rows, rounds, concurrency }: Turns) {
  const measured = new Map<Subject, Round[]>(subjects.map((subject) => [subject, []]))
  for (let round = 0; round <= rounds; round++) {
    if (rows === 0) await bench.admin.query('checkpoint')
    for (const subject of inTurn(subjects, round)) {
      if (rows === 0) await emptyTables(bench.admin, subject)
      const result = await measureRound(bench, subject, concurrency)
      // The first turn warms up plans, caches and WAL segments.
      if (round > 0) measured.get(subject)?.push(result)
    }
    console.error(`  ${rows} rows: round ${round} of ${rounds}`)
  }
  return measured
}

async function withoutCheckpoint<T>({ admin }: Bench, measure: () => Promise<T>) {
  const before = await lastCheckpoint(admin)
  const result = await measure()
  if (before !== (await lastCheckpoint(admin))) console.error('  a checkpoint fell into these rounds: raise max_wal_size')
  return result
}

async function fillAll({ admin, lanes }: Bench, subjects: readonly Subject[], rows: number) {
  for (const subject of subjects) {
    await fillRows(lanes.slice(0, 2), subject, rows)
    await admin.query(`vacuum (analyze) ${subject.copy.tables.join(', ')}`)
  }
  await admin.query('checkpoint')
  for (const subject of subjects) await fillRows(lanes.slice(0, 2), subject, Math.ceil(rows * tailShare))
}

export async function wholeTable({ admin }: Bench, { copy }: Subject) {
  const { rows } = await admin.query(
    `select sum(pg_relation_size(name::regclass))::float8 as heap, sum(pg_indexes_size(name::regclass))::float8 as indexes,
       (${copy.countFinished}) as keys from unnest($1::text[]) as name`,
    [copy.tables],
  )
  const [{ heap, indexes, keys }] = rows
  return { rows: keys as number, heapBytesPerKey: heap / keys, indexBytesPerKey: indexes / keys }
}

/** Another layout goes first each time, and every other turn runs backwards: nobody always follows the same neighbour. */
function inTurn<T>(items: readonly T[], round: number) {
  const start = round % items.length
  const turned = [...items.slice(start), ...items.slice(0, start)]
  return round % 2 ? turned.reverse() : turned
}
