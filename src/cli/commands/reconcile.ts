import { Command, Option } from 'commander'
import { isOncekeyError, OncekeyError } from '../../core/errors.js'
import type { ReconcileKey } from '../../reconcile/key-order.js'
import { reconcile as compared, type Reconciliation } from '../../reconcile/reconcile.js'
import { databaseUrl, milliseconds } from '../command.js'
import { type ExitCode, exitCodes, wrongUsage } from '../exit-codes.js'
import { jsonPrinter, textPrinter } from '../records/difference-printers.js'
import { linesOf } from '../records/lines.js'
import { type Progress, type ProgressPart, progressOn } from '../records/progress.js'
import { reading, recordsOfQuery } from '../records/query.js'
import { agree, type DataRecord, type FieldPair, fieldPair, keyAt, momentAt, recordOf, valueAt } from '../records/record.js'
import { seenMembers } from '../records/seen-members.js'
import { sorted } from '../records/sorted.js'
import type { Registered } from '../registered.js'
import type { World } from '../world.js'

interface ReconcileOptions {
  readonly local?: string
  readonly sql?: string
  readonly foreign?: string
  readonly key: FieldPair
  readonly compare: readonly FieldPair[]
  readonly time?: FieldPair
  readonly grace: number
  readonly sort?: true
  readonly databaseUrl?: string
  readonly json?: true
}

export const reconcile: Registered = (world, done) =>
  new Command('reconcile')
    .description("Compares our records with the other side's: what only one has, and what differs.")
    .option('--local <file>', 'our records, a JSON object on each line; - for standard input')
    .option('--sql <query>', 'or: our records from the database, in a read-only transaction')
    .option('--foreign <file>', "the other side's records, in the same form")
    .addOption(
      new Option('--key <field>', 'the field that matches records: name, or ours=theirs')
        .argParser(fieldPair)
        .default(fieldPair('id'), 'id'),
    )
    .addOption(
      new Option('--compare <fields>', 'fields that must agree, such as amount,status=state')
        .argParser((text) => text.split(',').map(fieldPair))
        .default([], 'none'),
    )
    .option('--time <field>', 'when a record last changed; changes within --grace are no difference yet', fieldPair)
    .addOption(new Option('--grace <duration>', 'how long a request may be in progress').argParser(milliseconds).default(600_000, '10m'))
    .option('--sort', 'sort the files first; without it they have to be sorted')
    .option('--database-url <url>', 'for --sql: the database (default: the variable DATABASE_URL)')
    .option('--json', 'print one JSON document instead of text')
    .addHelpText(
      'after',
      `
Exit code 0 if both sides agree, 6 if not. Files are sorted by the bytes of the
key, or by its value if it is a number; rows of --sql are sorted for you. Both
are read as streams: any size will do.`,
    )
    .action(async (options: ReconcileOptions) => {
      checkSides(options)
      done(await withLocal(world, options, (open, now) => reported(world, options, open, now)))
    })

function checkSides({ local, sql, foreign }: ReconcileOptions): void {
  if ((local === undefined) === (sql === undefined)) throw wrongUsage('No records of ours: pass either --local or --sql.')
  if (foreign === undefined) throw wrongUsage('No records of the other side: pass --foreign.')
  if (local === '-' && foreign === '-') throw wrongUsage('Only one side can come from standard input.')
}

type OpenSide = (progress: Progress) => Promise<AsyncIterable<DataRecord>>

/** Our side, from a file or from the database, which then also gives the time. */
async function withLocal<T>(world: World, options: ReconcileOptions, work: (open: OpenSide, now: number) => Promise<T>): Promise<T> {
  const { local, sql = '', key } = options
  if (local !== undefined) return work((progress) => recordsOfFile(world, options, local, key.local, progress), world.now())
  const { connection, close } = await world.connect(databaseUrl(world, options))
  try {
    return await reading(connection, (db, now) =>
      work(async (progress) => stepping(recordsOfQuery(db, sql, key.local), progress.part(undefined), () => 0), now),
    )
  } finally {
    await close()
  }
}

const nameOf = (path: string) => (path === '-' ? 'standard input' : path)

async function recordsOfFile(
  world: World,
  { sort }: ReconcileOptions,
  path: string,
  key: readonly string[],
  progress: Progress,
): Promise<AsyncIterable<DataRecord>> {
  const name = nameOf(path)
  const size = await world.size(path)
  const reading = progress.part(size)
  async function* records() {
    const chunks = stepping(world.read(path), reading, ({ length }) => length)
    for await (const { text, number } of linesOf(name, chunks)) yield recordOf(text, `line ${number} of ${name}`)
  }
  // Sorting reads everything twice.
  return sort ? stepping(sorted(records(), key), progress.part(size), ({ text }) => Buffer.byteLength(text) + 1) : records()
}

/** The same items, with progress. */
async function* stepping<Item>(items: AsyncIterable<Item>, part: ProgressPart, bytesOf: (item: Item) => number) {
  for await (const item of items) {
    part.step(bytesOf(item))
    yield item
  }
  part.end()
}

async function reported(world: World, options: ReconcileOptions, openLocal: OpenSide, now: number): Promise<ExitCode> {
  const { key, compare, time, grace, local = '--sql', foreign = '' } = options
  const ours = seenMembers(nameOf(local), compare, 'local')
  const theirs = seenMembers(nameOf(foreign), compare, 'foreign')
  const print = options.json ? jsonPrinter(world) : textPrinter(world, compare)
  const progress = progressOn(world, () => run.summary)
  const run: Reconciliation<DataRecord, DataRecord, ReconcileKey> = compared({
    local: await openLocal(progress),
    foreign: await recordsOfFile(world, options, foreign, key.foreign, progress),
    key: { local: (record) => keyAt(ours.note(record), key.local), foreign: (record) => keyAt(theirs.note(record), key.foreign) },
    compare: Object.fromEntries(
      compare.map((field) => [
        field.name,
        (ours: DataRecord, theirs: DataRecord) => agree(valueAt(ours, field.local), valueAt(theirs, field.foreign)),
      ]),
    ),
    ...(time && {
      settled: {
        local: (record: DataRecord) => momentAt(record, time.local) < now - grace,
        foreign: (record: DataRecord) => momentAt(record, time.foreign) < now - grace,
      },
    }),
  })
  try {
    for await (const difference of run) {
      progress.clear()
      print.difference(difference)
      await world.drained()
    }
    if (run.summary.equal + run.summary.differs > 0) for (const side of [ours, theirs]) side.check()
  } catch (error) {
    progress.clear()
    return print.failed(advised(error))
  }
  progress.clear()
  print.summary(run.summary)
  const { differs, onlyLocal, onlyForeign } = run.summary
  return differs + onlyLocal + onlyForeign > 0 ? exitCodes.different : exitCodes.fine
}

function advised(error: unknown): unknown {
  if (!isOncekeyError(error, 'reconcile_unsorted')) return error
  return new OncekeyError(error.code, `${error.message} Or pass --sort: then files are sorted first.`, { cause: error })
}
