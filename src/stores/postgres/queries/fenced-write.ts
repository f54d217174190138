import type { KeyState, Lease } from '../../../core/record.js'
import type { WriteResult } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'

type Value = string | number | boolean | Uint8Array | null

/**
 * A holder's last write: it ends the lease, and it changes nothing unless incarnation and fence are the newest. Nothing is
 * asked of the lease's time: a holder that is late but was not replaced may still finish.
 *
 * `assignments` may use $1 to $6 for the lease and the new state, and its own values from $7 on.
 */
export function fencedWrite(keys: string, assignments: string) {
  const write = `
    update ${keys} set state = $6, locked_until = null, ${assignments}
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4 and owner = $5::uuid
      and state = 'processing'
    returning true as done`
  const repeated = `
    select true as done from ${keys}
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4 and owner = $5::uuid and state = $6`

  return async (db: Queryable, lease: Lease, state: KeyState, values: readonly Value[]): Promise<WriteResult> => {
    const held = [lease.tenant, lease.id, lease.incarnation, lease.fence, lease.owner, state]
    const [done] = await db.query(write, [...held, ...values])
    if (done) return 'done'
    // The same write again, because its acknowledgement was lost? Then the row is as it was left.
    const [before] = await db.query(repeated, held)
    return before ? 'done' : 'lost'
  }
}
