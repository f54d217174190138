import type { Lease } from '../../../core/record.js'
import type { LeaseRenewal, LeaseStanding } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import { after } from './key-row.js'

/**
 * Renews all live leases of a process in one statement.
 *
 * A row that somebody else has locked is left out (`skip locked`), or one frozen transaction would let every lease of the
 * process lapse. Such rows come back as `busy`. The leases travel as one JSON text: every driver sends that alike, and
 * heartbeats are too few to care.
 */
export function keyHeartbeat(keys: string) {
  const leases = `json_to_recordset($1::text::json) as lease (tenant text, id uuid, incarnation uuid, fence integer, ms float8)`
  const held = `
    key.tenant = lease.tenant and key.id = lease.id and key.incarnation = lease.incarnation and key.fence = lease.fence
    and key.state = 'processing'`
  const renew = `
    with held as materialized (
      select key.tenant, key.id, lease.ms
      from ${leases} join ${keys} as key on ${held}
      order by key.tenant, key.id
      for no key update of key skip locked
    )
    update ${keys} as key set locked_until = ${after('clock_timestamp()', 'held.ms')}
    from held where key.tenant = held.tenant and key.id = held.id
    returning key.tenant, key.id::text as id`
  const stillHeld = `select key.tenant, key.id::text as id from ${leases} join ${keys} as key on ${held}`

  return async (db: Queryable, renewals: readonly LeaseRenewal[]): Promise<LeaseStanding[]> => {
    const renewed = await ask(db, renew, renewals)
    const missing = renewals.filter((lease) => !renewed.has(lease.id))
    const busy = missing.length > 0 ? await ask(db, stillHeld, missing) : new Set()
    return renewals.map(({ id }) => (renewed.has(id) ? 'renewed' : busy.has(id) ? 'busy' : 'lost'))
  }
}

/** The ids (they are digests that include the tenant) of the leases that the statement found. */
async function ask(db: Queryable, text: string, renewals: readonly (Lease & { leaseMs: number })[]): Promise<Set<string>> {
  const leases = renewals.map(({ tenant, id, incarnation, fence, leaseMs }) => ({ tenant, id, incarnation, fence, ms: leaseMs }))
  const rows = await db.query(text, [JSON.stringify(leases)])
  return new Set(rows.map((row) => row.id as string))
}
