import { isOncekeyError, OncekeyError } from '../../../core/errors.js'
import type { Connection, Queryable, Row } from '../connections/connection.js'
import { statementsOf } from '../connections/statements.js'
import { hasState, isImpatience } from '../driver-errors.js'
import { boundedStatement } from './bounded-statement.js'
import { LockPatience } from './lock-patience.js'
import { limitWaits, tablesBlocked } from './locks.js'
import type { Migration } from './migration.js'

/** Where steps are applied. */
export interface Target<Tx> {
  readonly connection: Connection<Tx>
  readonly schema: string
  readonly quoted: string
  readonly lockTimeoutMs: number
}

/** A step as SQL for one transaction, with its note in the table of migrations. */
export function scriptOf(step: Migration, quoted: string): string {
  return `${sqlOf(step, quoted, false)}\n${noteOf(step, quoted)}`
}

/** All steps in the caller's transaction: for tables that are new or small, where nothing takes long. */
export async function applyAtOnce<Tx>({ connection, quoted }: Target<Tx>, tx: Tx, steps: readonly Migration[]): Promise<void> {
  for (const step of steps) {
    if (step.mode === 'batches') {
      await inBatches(statementsOf(sqlOf(step, quoted, false)), (statement) => connection.within(tx).query(statement, []))
    }
    await connection.script(tx, step.mode === 'batches' ? noteOf(step, quoted) : scriptOf(step, quoted))
  }
}

/**
 * Each step for itself, so that no table is locked for longer than a moment. `lock` is the transaction that keeps other processes from
 * migrating.
 */
export async function applyOneByOne<Tx>(target: Target<Tx>, lock: Queryable, steps: readonly Migration[]): Promise<void> {
  const { connection, quoted } = target
  await checkRoom(connection, lock)
  for (const step of steps) {
    // Fails if the lock is lost.
    await lock.query('select 1 as held', [], { timeoutMs: connectionMs })
    if (step.mode === undefined || step.mode === 'transaction') {
      await patiently(target, (tx) => connection.script(tx, scriptOf(step, quoted)))
      continue
    }
    const statements = statementsOf(sqlOf(step, quoted, true))
    const inTurn = (statement: string) => patiently(target, (tx) => connection.within(tx).query(statement, []))
    if (step.mode === 'batches') await inBatches(statements, inTurn)
    else for (const statement of statements) await alone(target, lock, statement)
    await inTurn(noteOf(step, quoted))
  }
}

/** For a connection and a begin, and for a commit. */
const connectionMs = 60_000

/** Longer than a step takes that is one transaction. A connection that went silent holds up a deployment no longer than this. */
const longestStepMs = 15 * 60_000

/** One transaction, restarted with backoff until it gets its locks. */
export async function patiently<Tx, T>(
  { connection, schema, lockTimeoutMs }: Target<Tx>,
  work: (tx: Tx) => Promise<T>,
  workMs = longestStepMs,
): Promise<T> {
  const patience = new LockPatience(lockTimeoutMs)
  for (;;) {
    try {
      const limited = async (tx: Tx) => {
        await limitWaits(connection.within(tx), patience.tryMs)
        return work(tx)
      }
      return await connection.transaction(limited, { timeoutMs: connectionMs, workMs })
    } catch (error) {
      // A lock timeout, or a deadlock.
      if (isOncekeyError(error) || !hasState(error, '55P03', '40P01')) throw error
      if (patience.isOver) throw await tablesBlocked(connection, schema, lockTimeoutMs, error)
      await patience.pause()
    }
  }
}

async function inBatches(statements: readonly string[], run: (statement: string) => Promise<readonly Row[]>): Promise<void> {
  for (const statement of statements) {
    while ((await run(statement)).length > 0);
  }
}

async function alone<Tx>({ connection, schema, quoted, lockTimeoutMs }: Target<Tx>, lock: Queryable, statement: string): Promise<void> {
  const run = (text: string) => boundedStatement(connection, lock, schema, text, lockTimeoutMs)
  const [, index] = /^create (?:unique )?index concurrently (\w+)/.exec(statement) ?? []
  if (index !== undefined) {
    const [found] = await connection.query(
      `select i.indisvalid as valid from pg_index as i join pg_class as c on c.oid = i.indexrelid
        join pg_namespace as n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = $2`,
      [schema, index],
    )
    if (found?.valid) return
    // Left by a process that died while it was built.
    if (found) await run(`drop index concurrently ${quoted}.${index}`)
  }
  try {
    await run(statement)
  } catch (error) {
    if (isOncekeyError(error) || !isImpatience(error)) throw error
    throw new OncekeyError(
      'migration_blocked',
      `statement_timeout or lock_timeout of this connection ended a migration: ${statement.slice(0, 100)}. What was done stays done: run migrate() ` +
        'again with a connection that has no such time-out, or npx oncekey migrate.',
      { cause: error },
    )
  }
}

/** Statements outside of the locking transaction need a second connection, and must not wait for the snapshot of the first one. */
async function checkRoom(connection: Queryable, lock: Queryable): Promise<void> {
  const [settings] = await lock.query(`select current_setting('transaction_isolation') as isolation`, [])
  if (settings?.isolation !== 'read committed') {
    throw new OncekeyError(
      'option_invalid',
      `migrate() of large tables needs transactions that are read committed, and these are ${settings?.isolation}: set ` +
        'default_transaction_isolation of its connection, or run npx oncekey migrate.',
    )
  }
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const error = new OncekeyError(
      'option_invalid',
      'migrate() of large tables needs two connections, and got one within 5 s: let the pool have two, or run npx oncekey migrate.',
    )
    timer = setTimeout(() => reject(error), 5_000)
  })
  const second = connection.query('select 1 as second', [])
  second.catch(() => {})
  await Promise.race([second, late]).finally(() => clearTimeout(timer))
}

/** `concurrently` is for large tables, and impossible in a transaction. */
function sqlOf({ sql }: Migration, quoted: string, concurrently: boolean): string {
  return (concurrently ? sql : sql.replaceAll('index concurrently', 'index')).replaceAll(':schema', () => quoted)
}

function noteOf({ version, name, breaking }: Migration, quoted: string): string {
  return `insert into ${quoted}.migrations (version, name, breaking) values (${version}, '${name}', ${breaking});`
}
