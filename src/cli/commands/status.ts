import { Option } from 'commander'
import type { Backlog, KeysCount } from '../../stores/postgres/queries/keys-count.js'
import type { TableMeasure } from '../../stores/postgres/queries/tables-measure.js'
import { patienceMs, troubles } from '../backlog.js'
import { columns } from '../columns.js'
import { atDesk, type CommonOptions, type Desk, milliseconds, newCommand, type Report } from '../command.js'
import { exitCodes } from '../exit-codes.js'
import { type Paint, paintState } from '../paint.js'
import type { Registered } from '../registered.js'
import { bytes, iso, lasting } from '../words.js'

interface StatusOptions extends CommonOptions {
  readonly check?: true
  readonly late: number
}

export const status: Registered = (world, done) =>
  newCommand('status', 'Keys by state, the oldest stuck key, outbox lag, table sizes.')
    .option('--check', 'exit code 5 if anything is parked, stuck, overdue, not delivered or dead')
    .addOption(new Option('--late <duration>', 'what counts as late for --check').argParser(milliseconds).default(patienceMs, '60s'))
    .addHelpText('after', '\nIt counts the whole table.')
    .action(async (options: StatusOptions) => done(await atDesk(world, options, (desk) => standing(desk, options))))

async function standing({ operator, paint }: Desk, options: StatusOptions): Promise<Report> {
  const counts = await operator.keysCount()
  const tables = await operator.tablesMeasure()
  const trouble = troubles(counts, options.late)
  return {
    data: { ...countData(counts), tables, trouble },
    lines: [
      ...countLines(counts, paint),
      '',
      ...tableLines(tables),
      ...(trouble.length === 0 ? [] : ['', ...trouble.flatMap(({ says, todo }) => [paint('yellow', says), `  ${todo}`])]),
    ],
    exitCode: options.check && trouble.length > 0 ? exitCodes.problems : exitCodes.fine,
  }
}

const kinds = ['stuck', 'overdue', 'parked', 'expired', 'outbox', 'deadLetters'] as const

function countData(counts: KeysCount) {
  const lag = ({ count, since }: Backlog) => ({ count, since: iso(since), ageMs: since === null ? null : counts.now - since })
  return { now: iso(counts.now), states: counts.states, ...Object.fromEntries(kinds.map((kind) => [kind, lag(counts[kind])])) }
}

function countLines(counts: KeysCount, paint: Paint): string[] {
  const explained = (backlog: Backlog, what: string) =>
    backlog.count === 0 || backlog.since === null ? '' : `${what} ${lasting(counts.now - backlog.since)}`
  const rows = [
    ['pending', counts.states.pending, explained(counts.overdue, `${counts.overdue.count} due, the oldest for`)],
    ['processing', counts.states.processing, explained(counts.stuck, `${counts.stuck.count} past the lease, the oldest for`)],
    ['parked', counts.states.parked, explained(counts.parked, 'to resolve; age of the oldest:')],
    ['complete', counts.states.complete, ''],
    ['failed', counts.states.failed, ''],
    ['expired', counts.expired.count, explained(counts.expired, 'finished keys to reap, the oldest for')],
    ['outbox', counts.outbox.count, explained(counts.outbox, 'jobs not delivered, the oldest late by')],
    ['dead', counts.deadLetters.count, explained(counts.deadLetters, 'jobs to retry or discard; the first dead for')],
  ] as const
  const lines = columns(
    rows.map(([name, count, text]) => [name, count.toLocaleString('en'), text]),
    { right: [1] },
  )
  return lines.map((line, at) => line.replace(/^\w+/, (name) => (rows[at]?.[1] === 0 ? name : paintState(paint, name))))
}

function tableLines(tables: readonly TableMeasure[]): string[] {
  const about = (rows: number | null) => (rows === null ? '?' : `~${rows.toLocaleString('en')}`)
  const rows = tables.flatMap(({ name, rows, deadRows, tableBytes, indexes }) => [
    [name, about(rows), deadRows.toLocaleString('en'), bytes(tableBytes)],
    ...indexes.map((index) => [`  ${index.name}`, '', '', `${bytes(index.bytes)}${index.valid ? '' : ' INVALID'}`]),
  ])
  return columns([['TABLE, INDEX', 'ROWS', 'DEAD', 'SIZE'], ...rows], { right: [1, 2, 3] })
}
