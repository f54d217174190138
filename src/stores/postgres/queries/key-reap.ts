import type { OncekeyError } from '../../../core/errors.js'
import type { KeyStore } from '../../../core/store.js'
import type { Queryable, Row } from '../connections/connection.js'
import { isImpatience, isSerializationFailure, translated } from '../driver-errors.js'
import type { Tables } from '../tables.js'
import { keyList, keyListValue } from './key-list.js'
import { mostLooks } from './keys-time-out.js'

/** How long a delete waits for rows of the user's that point at a key. Meanwhile the other keys of its batch cannot be used anew. */
const lockTimeoutMs = 50

/** How long a key is left alone that could not be deleted: because a row that points at it is locked, or for any other reason. */
const lockedForMs = 60_000
const refusedForMs = 3_600_000

/**
 * So many deletes of a call may fail while it looks for the keys that are to blame: it must end long before its caller's deadline, and each waits
 * for a lock. Then what remains of a batch is left alone as a whole.
 */
const mostFailures = 100

type Reap = Parameters<KeyStore['keyReap']>[0]

/**
 * Deletes expired keys, oldest first, with the results of their steps. It finds and locks them in one statement, so that reapers which work at
 * the same time take different ones.
 *
 * A foreign key or a trigger of the user's may make the delete of a key wait or fail. Then the batch is halved until that key is alone, and
 * its `reap_after` moves, or it would be the first of every batch from then on. If too many deletes fail, all that remains is postponed.
 */
export function keyReap({ keys, steps, skippingLocked, distributed }: Tables) {
  const expired = `key.state in ('complete', 'failed') and key.expires_at <= statement_timestamp()`
  const due = `key.reap_after < 'infinity' and key.reap_after <= statement_timestamp() and ${expired}`
  // Evaluated before any row is found, so before any is deleted. Distributed tables refuse it.
  const isImpatient = distributed ? '' : `(select set_config('lock_timeout', '${lockTimeoutMs}ms', true)) is not null and`
  const find = `select key.tenant, key.id::text as id from ${keys} as key where ${due} order by key.reap_after limit $1`
  const named = `${keyList('$1')} join ${keys} as key on key.tenant = wanted.tenant and key.id = wanted.id`
  const remove = (found: string) => `
    with found as materialized (
      select key.tenant, key.id from ${found}
      ${skippingLocked}
    ), deleted as (
      delete from ${keys} as key using found
      where key.tenant = found.tenant and key.id = found.id and ${expired}
      returning key.tenant, key.id
    ), forgotten as (
      delete from ${steps} as step using deleted where step.tenant = deleted.tenant and step.key_id = deleted.id
    )
    select count(*)::integer as count from deleted`
  const removeDue = remove(`${keys} as key where ${isImpatient} ${due} order by key.reap_after limit $1`)
  const removeNamed = remove(`${named} where ${isImpatient} ${expired} order by key.tenant, key.id`)
  const postpone = `
    with found as materialized (
      select key.tenant, key.id from ${named} where ${expired} order by key.tenant, key.id
      ${skippingLocked}
    )
    update ${keys} as key set reap_after = statement_timestamp() + $2::float8 * interval '1 millisecond' from found
    where key.tenant = found.tenant and key.id = found.id and ${expired}`

  const countOf = (rows: readonly Row[]): number => rows[0]?.count ?? 0

  /** How many it deleted: 0 only if there is nothing more that can be deleted now. */
  return async (db: Queryable, { limit, onRefused = () => {} }: Reap): Promise<number> => {
    const failed = { deletes: 0 }
    for (let looks = 0; looks < mostLooks; looks += 1) {
      try {
        if (!distributed) return countOf(await db.query(removeDue, [limit]))
      } catch (error) {
        if (!isOfOneKey(error)) throw error
      }
      const rows = await db.query(find, [limit])
      if (rows.length === 0) return 0
      const reaped = await removeByHalves(db, rows, failed, onRefused)
      if (reaped > 0) return reaped
    }
    return 0
  }

  async function removeByHalves(
    db: Queryable,
    rows: readonly Row[],
    failed: { deletes: number },
    onRefused: (error: OncekeyError) => void,
  ): Promise<number> {
    const parts = [rows]
    let reaped = 0
    for (let part = parts.pop(); part; part = parts.pop()) {
      try {
        reaped += countOf(await db.query(removeNamed, [keyListValue(part)]))
      } catch (error) {
        // What was reaped must be counted. Trouble that lasts comes again with the next call.
        if (isOfOneKey(error)) await leaveOrHalve(part, error)
        else if (reaped === 0) throw error
        else return reaped
      }
    }
    return reaped

    async function leaveOrHalve(part: readonly Row[], error: unknown): Promise<void> {
      failed.deletes += 1
      const middle = Math.ceil(part.length / 2)
      if (failed.deletes >= mostFailures) await leaveAlone(db, [...part, ...parts.splice(0).flat()], error, onRefused)
      else if (part.length > 1) parts.push(part.slice(middle), part.slice(0, middle))
      else await leaveAlone(db, part, error, onRefused)
    }
  }

  async function leaveAlone(db: Queryable, part: readonly Row[], error: unknown, onRefused: (error: OncekeyError) => void): Promise<void> {
    const isLocked = isImpatience(error)
    // Of several, most may be fine.
    await db.query(postpone, [keyListValue(part), isLocked || part.length > 1 ? lockedForMs : refusedForMs])
    if (!isLocked) onRefused(translated(error, ''))
  }
}

/** A row that points at a key is locked, or a foreign key or trigger of the user's refuses the delete. All else is trouble with the database. */
function isOfOneKey(error: unknown): boolean {
  if (isSerializationFailure(error)) return false
  return isImpatience(error) || translated(error, '').code === 'store_failed'
}
