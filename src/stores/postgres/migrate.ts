import { type Duration, durationMs } from '../../core/duration.js'
import { isOncekeyError, OncekeyError } from '../../core/errors.js'
import { Bounded } from './bounded.js'
import { checkConnection } from './connections/check-driver.js'
import type { Connection, Queryable } from './connections/connection.js'
import { translated } from './driver-errors.js'
import { applyAtOnce, applyOneByOne, patiently, scriptOf, type Target } from './migrations/apply.js'
import { migrations } from './migrations/compiled.js'
import { LockPatience } from './migrations/lock-patience.js'
import { migrationBlocked, tablesBlocked, takeMigrationLock } from './migrations/locks.js'
import type { Migration } from './migrations/migration.js'
import { quotedSchema } from './schema-name.js'

export interface MigrateOptions {
  /** The schema for the tables; it is created if it is not there. Default `oncekey`. */
  schema?: string
  /**
   * How long it waits for locks: while another process migrates, and while open transactions use a table that a step must lock.
   * Too low: a deployment fails beside a long transaction. Too high: it hangs. Default 30 s.
   */
  lockTimeout?: Duration
}

/** Of a large table: builds of indexes may take hours. Each step ends by itself. */
const longestMigrationMs = 2 ** 31 - 1

/** A table of up to so many rows is changed within milliseconds. */
const smallTableRows = 10_000

/**
 * Brings the tables up to this release. Safe to run from every process at every start: when there is nothing to do it reads one table
 * and locks none; else one process does it, and the others wait. New and small tables are done in one transaction, large ones step by
 * step, so that claims go on meanwhile.
 *
 * @returns the names of the migrations that this call applied
 */
export async function migrate<Tx>(
  connection: Connection<Tx>,
  { schema = 'oncekey', lockTimeout = '30s' }: MigrateOptions = {},
  /** For tests of later releases. */
  steps: readonly Migration[] = migrations,
): Promise<string[]> {
  checkConnection('migrate', connection)
  const target: Target<Tx> = {
    connection,
    schema,
    quoted: quotedSchema(schema),
    lockTimeoutMs: durationMs(lockTimeout, 'lockTimeout'),
  }
  const turn = new LockPatience(target.lockTimeoutMs)
  try {
    for (;;) {
      if (await isDone(target, steps)) return []
      const done = await migrateInTurn(target, steps)
      if (done) return done
      if (turn.isOver) throw await migrationBlocked(connection, schema, target.lockTimeoutMs)
      await turn.sleep(200)
    }
  } catch (error) {
    throw translated(error, schema)
  }
}

/** Without a transaction, because a process asks this at each start. */
async function isDone<Tx>(target: Target<Tx>, steps: readonly Migration[]): Promise<boolean> {
  const { connection, schema, lockTimeoutMs } = target
  try {
    return (await pendingSteps(new Bounded(connection, { timeoutMs: lockTimeoutMs }), target, steps)).length === 0
  } catch (error) {
    if (!isOncekeyError(error, 'store_timeout')) throw error
    throw await tablesBlocked(new Bounded(connection), schema, lockTimeoutMs, error)
  }
}

/** What this call applied; undefined if another process migrates now. */
async function migrateInTurn<Tx>(target: Target<Tx>, steps: readonly Migration[]): Promise<string[] | undefined> {
  const { connection, schema, quoted } = target
  const stepwise = !connection.singleSession && (await patiently(target, (tx) => isLarge(connection.within(tx), target)))
  const inTurn = async (tx: Tx): Promise<string[] | undefined> => {
    const db = connection.within(tx)
    if (!(await takeMigrationLock(db, schema))) return undefined
    const pending = await pendingSteps(db, target, steps)
    if (stepwise) {
      await applyOneByOne(target, db, pending)
    } else {
      // A user without the right to create schemas may still migrate one that was made for it.
      const [existing] = await db.query('select 1 as found from pg_namespace where nspname = $1', [schema])
      // Asked first rather than "if not exists", which would send a notice.
      if (!existing) await connection.script(tx, `create schema ${quoted};`)
      if (!(await hasTable(db, schema, 'migrations'))) await connection.script(tx, migrationsTable(quoted))
      await applyAtOnce(target, tx, pending)
    }
    return pending.map(({ name }) => name)
  }
  return patiently(target, inTurn, stepwise ? longestMigrationMs : undefined)
}

async function pendingSteps(
  db: Queryable,
  { schema, quoted }: Pick<Target<never>, 'schema' | 'quoted'>,
  steps: readonly Migration[],
): Promise<Migration[]> {
  const applied = (await hasTable(db, schema, 'migrations')) ? await appliedMigrations(db, quoted) : []
  checkHistory(applied, steps, schema)
  return steps.slice(applied.length)
}

async function hasTable(db: Queryable, schema: string, table: string): Promise<boolean> {
  const found = await db.query('select 1 as found from pg_tables where schemaname = $1 and tablename = $2', [schema, table])
  return found.length > 0
}

async function isLarge(db: Queryable, { schema, quoted }: Pick<Target<never>, 'schema' | 'quoted'>): Promise<boolean> {
  for (const table of ['keys', 'jobs']) {
    if (!(await hasTable(db, schema, table))) continue
    // Counted, because sizes and estimates are zero or old on partitioned tables.
    const beyond = await db.query(`select 1 as beyond from ${quoted}.${table} offset ${smallTableRows} limit 1`, [])
    if (beyond.length > 0) return true
  }
  return false
}

/**
 * The SQL that `migrate()` would run on an empty database, for people who run migrations with a tool of their own. Run it in one
 * transaction.
 */
export function migrationSql({ schema = 'oncekey' }: Pick<MigrateOptions, 'schema'> = {}): string {
  const quoted = quotedSchema(schema)
  const steps = migrations.map((step) => scriptOf(step, quoted))
  return [`create schema if not exists ${quoted};`, migrationsTable(quoted), ...steps, ''].join('\n')
}

/** What `migrate()` has done to a schema, and what it would do now. Throws if the schema is not one that this release could migrate. */
export async function migrationStatus<Tx>(
  connection: Connection<Tx>,
  { schema = 'oncekey' }: Pick<MigrateOptions, 'schema'> = {},
): Promise<{ applied: string[]; pending: string[] }> {
  const quoted = quotedSchema(schema)
  try {
    const applied = (await hasTable(connection, schema, 'migrations')) ? await appliedMigrations(connection, quoted) : []
    checkHistory(applied, migrations, schema)
    return { applied: applied.map(({ name }) => name), pending: migrations.slice(applied.length).map(({ name }) => name) }
  } catch (error) {
    throw translated(error, schema)
  }
}

/** Throws unless the tables are there and this release can work with them. */
export async function checkSchema(
  db: Queryable,
  schema: string,
  /** For tests of later releases. */
  steps: readonly Migration[] = migrations,
): Promise<void> {
  const applied = await appliedMigrations(db, quotedSchema(schema))
  checkHistory(applied, steps, schema)
  if (applied.length >= steps.length) return
  throw new OncekeyError(
    'schema_outdated',
    `Schema ${schema} is at migration ${applied.length}, this release needs ${steps.length}: run migrate() before you start it.`,
  )
}

interface Applied {
  version: number
  name: string
  breaking: boolean
}

/** What was applied must be the beginning of what we know; what we do not know must not break us. */
function checkHistory(applied: readonly Applied[], steps: readonly Migration[], schema: string): void {
  for (const [index, { version, name, breaking }] of applied.entries()) {
    const step = steps[index]
    if (step ? version === step.version && name === step.name : version === index + 1 && !breaking) continue
    if (!step && breaking && version === index + 1) {
      throw new OncekeyError(
        'schema_too_new',
        `Schema ${schema} has migration ${version} (${name}), which breaks this older release: deploy a newer one. Nothing was changed.`,
      )
    }
    throw new OncekeyError(
      'migration_out_of_order',
      `Schema ${schema} has migration ${version} (${name}) where ${step ? `${step.version} (${step.name})` : `number ${index + 1}`} belongs: ` +
        'its history is not that of oncekey. Restore the migrations table, or use another schema. Nothing was changed.',
    )
  }
}

async function appliedMigrations(db: Queryable, quoted: string): Promise<Applied[]> {
  return (await db.query(`select version, name, breaking from ${quoted}.migrations order by version`, [])) as Applied[]
}

function migrationsTable(quoted: string): string {
  return `
create table ${quoted}.migrations (
  version    integer     primary key,
  name       text        not null,
  breaking   boolean     not null,
  applied_at timestamptz not null default clock_timestamp()
);`
}
