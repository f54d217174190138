import type { Queryable } from '../connections/connection.js'
import { statementBlocked } from './locks.js'

const lookEveryMs = 250

/** How long a look waits for a third connection of the pool. */
const connectionMs = 1_000

/** Longer than a look takes. */
const longestLookMs = 15_000

/**
 * Runs a statement that Postgres takes outside of transactions only, where no `lock_timeout` can be set for it alone. It waits for
 * transactions that are older than itself. Claims do not wait for it, but the caller does: past `waitMs` it is cancelled.
 */
export async function boundedStatement(db: Queryable, lock: Queryable, schema: string, statement: string, waitMs: number) {
  const observer = observing(db, lock)
  const running = db.query(statement, [])
  let isRunning = true
  const ended = running
    .catch(() => {})
    .then(() => {
      isRunning = false
    })
  let waitsSince: number | undefined
  while (isRunning) {
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, lookEveryMs))])
    const [waiting] = isRunning ? await observer.query(waitingStatement, [statement]) : []
    waitsSince = waiting ? (waitsSince ?? performance.now()) : undefined
    if (!waiting || waitsSince === undefined || performance.now() - waitsSince < waitMs) continue
    const error = await statementBlocked(observer, schema, statement, Number(waiting.pid), waitMs)
    await observer.query('select pg_cancel_backend($1)::text as cancelled', [Number(waiting.pid)])
    await ended
    throw error
  }
  await running
}

/**
 * Not in the transaction of the lock: an index build that begins to wait during a look would wait for the look's snapshot, and with it for the end
 * of that transaction, which waits for the build. Only if the pool has no third connection there is no other way.
 */
function observing(db: Queryable, lock: Queryable): Queryable {
  let hasThird = true
  return {
    async query(text, values) {
      if (hasThird) {
        let timer: NodeJS.Timeout | undefined
        const late = new Promise<undefined>((resolve) => {
          timer = setTimeout(resolve, connectionMs, undefined)
        })
        const looked = db.query(text, values, { timeoutMs: longestLookMs })
        looked.catch(() => {})
        const rows = await Promise.race([looked, late]).finally(() => clearTimeout(timer))
        if (rows) return rows
        hasThird = false
      }
      return lock.query(text, values, { timeoutMs: longestLookMs })
    },
  }
}

const waitingStatement = `
  select pid from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and state = 'active' and left(query, 100) = left($1, 100)`
