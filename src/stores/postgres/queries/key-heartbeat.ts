import type { LeaseRenewal, LeaseStanding } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { byHalves } from './halving.js'
import { after } from './key-row.js'

/**
 * Renews all live leases of a process in one statement.
 *
 * A row that another session has locked is left out (`skip locked`), or one frozen transaction would let every lease of the
 * process lapse. Such rows come back as `busy`, and so do rows that a trigger of the user's refuses. The leases travel as one JSON text: every driver sends that alike, and
 * heartbeats are too few to care.
 */
export function keyHeartbeat({ keys, skippingLocked }: Tables) {
  const leases = `json_to_recordset($1::text::json)
      as lease (position integer, tenant text, id uuid, incarnation uuid, fence integer, ms float8)`
  const held = `key.tenant = lease.tenant and key.id = lease.id and key.incarnation = lease.incarnation
      and key.fence = lease.fence and key.state = 'processing'`
  const renew = `
    with held as materialized (
      select lease.position, key.tenant, key.id, lease.ms
      from ${leases} join ${keys} as key on ${held}
      order by key.tenant, key.id
      ${skippingLocked}
    )
    update ${keys} as key
    set locked_until = (${after(`statement_timestamp() at time zone 'UTC'`, 'held.ms')}) at time zone 'UTC'
    from held where key.tenant = held.tenant and key.id = held.id
    returning held.position`
  const stillHeld = `select lease.position from ${leases} join ${keys} as key on ${held}`

  return async (db: Queryable, renewals: readonly LeaseRenewal[]): Promise<LeaseStanding[]> => {
    // By position, not by key: a process may hold an old lease and the newest one of the same key.
    const asked = renewals.map(({ tenant, id, incarnation, fence, leaseMs }, position) => {
      return { position, tenant, id, incarnation, fence, ms: leaseMs }
    })
    const standings = renewals.map((): LeaseStanding => 'lost')
    const { results, refused } = await byHalves(asked, (part) => db.query(renew, [JSON.stringify(part)], { often: true }))
    // If none was renewed, its caller has to know why.
    if (results.length === 0) throw refused[0]?.error
    for (const { position } of results.flat()) standings[position] = 'renewed'
    const missing = asked.filter(({ position }) => standings[position] === 'lost')
    if (missing.length === 0) return standings
    for (const { position } of await db.query(stillHeld, [JSON.stringify(missing)])) standings[position] = 'busy'
    return standings
  }
}
