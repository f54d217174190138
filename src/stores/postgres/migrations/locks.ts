import { OncekeyError } from '../../../core/errors.js'
import type { Queryable } from '../connections/connection.js'

/** What a transaction of `migrate()` waits for, and for how long. Settings of the user's that would end it half-way are off. */
export async function limitWaits(db: Queryable, lockMs: number): Promise<void> {
  const off = `name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`
  await db.query(
    `select set_config(name, case name when 'lock_timeout' then $1 else '0' end, true) from pg_settings where name = 'lock_timeout' or ${off}`,
    [String(lockMs)],
  )
}

const lockKey = (schema: string) => `oncekey migrate ${schema}`

/**
 * Until the end of the transaction one process migrates the schema. Does not wait: a statement that waits has a snapshot, for whose end
 * the index builds of the other process would wait in turn.
 */
export async function takeMigrationLock(db: Queryable, schema: string): Promise<boolean> {
  const [row] = await db.query('select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as taken', [lockKey(schema)])
  return row?.taken === true
}

const sessionColumns = `a.pid, a.application_name as application, a.state,
    extract(epoch from clock_timestamp() - a.xact_start)::integer as seconds, left(a.query, 200) as query`

const session = `
  select distinct ${sessionColumns}
  from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
  where l.granted and l.pid <> pg_backend_pid() and l.database = (select oid from pg_database where datname = current_database())`

/** Another process migrates, and has not finished. */
export async function migrationBlocked(db: Queryable, schema: string, waitedMs: number): Promise<OncekeyError> {
  const holders = await db.query(
    `${session} and l.locktype = 'advisory' and l.objsubid = 1
      and (l.classid::bigint << 32) + l.objid::bigint = hashtextextended($1, 0)`,
    [lockKey(schema)],
  )
  return blocked(`Another process migrates schema ${schema}, and has not finished after ${seconds(waitedMs)}`, holders)
}

/** A migration needs a table lock that open transactions hold. */
export async function tablesBlocked(db: Queryable, schema: string, waitedMs: number, cause: unknown): Promise<OncekeyError> {
  const holders = await db.query(
    `${session} and l.relation in (select c.oid from pg_class as c join pg_namespace as n on n.oid = c.relnamespace where n.nspname = $1)
      order by seconds desc nulls last limit 3`,
    [schema],
  )
  return blocked(`A migration of schema ${schema} did not get its lock on a table within ${seconds(waitedMs)}`, holders, cause)
}

/** A statement outside of transactions waits for others to end. */
export async function statementBlocked(
  db: Queryable,
  schema: string,
  statement: string,
  pid: number,
  waitedMs: number,
): Promise<OncekeyError> {
  // Not by the tables that they use: an index build waits for each transaction with an older snapshot, also one that only looked elsewhere.
  const holders = await db.query(`select ${sessionColumns} from pg_stat_activity as a where a.pid = any (pg_blocking_pids($1))`, [pid])
  return blocked(`A migration of schema ${schema} waited for ${seconds(waitedMs)} in: ${statement.slice(0, 100)}`, holders)
}

function blocked(what: string, holders: readonly Holder[], cause?: unknown): OncekeyError {
  const who = holders.length > 0 ? ` Held by ${holders.map(described).join('; ')}.` : ''
  const todo =
    'End that session (select pg_terminate_backend(pid)) or wait for it, then run migrate() again, or give it a longer lockTimeout.'
  return new OncekeyError('migration_blocked', `${what}.${who} ${todo}`, { cause })
}

type Holder = Readonly<Record<string, unknown>>

function described({ pid, application, state, seconds: age, query }: Holder): string {
  const since = age === null ? '' : `, its transaction is open for ${String(age)} s`
  return `pid ${String(pid)} (application "${String(application)}", ${String(state ?? 'state unknown')}${since}, last statement: ${String(query)})`
}

const seconds = (ms: number) => `${Math.round(ms / 100) / 10} s`
