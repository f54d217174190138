import { OncekeyError } from '../../core/errors.js'
import { checkConnection } from './connections/check-driver.js'
import type { Connection, Queryable } from './connections/connection.js'
import { translated } from './driver-errors.js'
import { migrations } from './migrations/compiled.js'
import type { Migration } from './migrations/migration.js'
import { quotedSchema } from './schema-name.js'

export interface MigrateOptions {
  /** The schema for the tables; it is created if it is not there. Default `oncekey`. */
  schema?: string
}

/**
 * Brings the tables up to this release. Safe to run from every process at every start: one of them does it, in one
 * transaction, the others wait and find it done.
 *
 * @returns the names of the migrations that this call applied
 */
export async function migrate<Tx>(
  connection: Connection<Tx>,
  { schema = 'oncekey' }: MigrateOptions = {},
  /** For tests of later releases. */
  steps: readonly Migration[] = migrations,
): Promise<string[]> {
  checkConnection('migrate', connection)
  const quoted = quotedSchema(schema)
  try {
    return await connection.transaction(async (tx) => {
      const db = connection.within(tx)
      await db.query('select pg_advisory_xact_lock(hashtextextended($1, 0))::text', [`oncekey migrate ${schema}`])
      // A user without the right to create schemas may still migrate one that was made for it.
      const [existing] = await db.query('select 1 as found from pg_namespace where nspname = $1', [schema])
      const [table] = await db.query(`select 1 as found from pg_tables where schemaname = $1 and tablename = 'migrations'`, [schema])
      // Asked first rather than "if not exists", which would send a notice at every start.
      if (!existing) await connection.script(tx, `create schema ${quoted};`)
      if (!table) await connection.script(tx, migrationsTable(quoted))
      const applied = await appliedMigrations(db, quoted)
      checkHistory(applied, steps, schema)
      const missing = steps.filter(({ version }) => version > applied.length)
      for (const step of missing) await connection.script(tx, scriptOf(step, quoted))
      return missing.map(({ name }) => name)
    })
  } catch (error) {
    throw translated(error, schema)
  }
}

/**
 * The SQL that `migrate()` would run on an empty database, for people who run migrations with a tool of their own. Run it in one
 * transaction.
 */
export function migrationSql({ schema = 'oncekey' }: MigrateOptions = {}): string {
  const quoted = quotedSchema(schema)
  const steps = migrations.map((step) => scriptOf(step, quoted))
  return [`create schema if not exists ${quoted};`, migrationsTable(quoted), ...steps, ''].join('\n')
}

/** What `migrate()` has done to a schema, and what it would do now. Throws if the schema is not one that this release could migrate. */
export async function migrationStatus<Tx>(
  connection: Connection<Tx>,
  { schema = 'oncekey' }: MigrateOptions = {},
): Promise<{ applied: string[]; pending: string[] }> {
  const quoted = quotedSchema(schema)
  try {
    const [table] = await connection.query(`select 1 as found from pg_tables where schemaname = $1 and tablename = 'migrations'`, [schema])
    const applied = table ? await appliedMigrations(connection, quoted) : []
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

function scriptOf({ version, name, breaking, sql }: Migration, quoted: string): string {
  return `${sql.replaceAll(':schema', () => quoted)}
insert into ${quoted}.migrations (version, name, breaking) values (${version}, '${name}', ${breaking});`
}
