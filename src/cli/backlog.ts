import type { Backlog, KeysCount } from '../stores/postgres/queries/keys-count.js'
import { lasting, many } from './words.js'

export interface Trouble {
  readonly name: 'stuck' | 'overdue' | 'parked' | 'outbox'
  readonly says: string
  readonly todo: string
}

/** Workers look every few seconds; what is late by this much is not just being looked at. */
export const patienceMs = 60_000

/** What of the counts somebody should look at. Parked keys always: nobody but a person moves them. */
export function troubles(counts: KeysCount, lateMs: number = patienceMs): Trouble[] {
  const age = ({ since }: Backlog) => (since === null ? 0 : counts.now - since)
  const late = (backlog: Backlog) => backlog.count > 0 && age(backlog) > lateMs
  const { stuck, overdue, parked, outbox } = counts
  const found: Trouble[] = []
  if (late(stuck)) {
    found.push({
      name: 'stuck',
      says: `${many(stuck.count, 'key')} processing past the lease, the oldest for ${lasting(age(stuck))}: the holders are gone`,
      todo: 'run a worker, or oncekey sweep now; a client that comes back takes its key over by itself',
    })
  }
  if (late(overdue)) {
    found.push({
      name: 'overdue',
      says: `${many(overdue.count, 'key')} waiting, the oldest due for ${lasting(age(overdue))}`,
      todo: 'see that a worker runs, and what it fails with: oncekey list --state overdue',
    })
  }
  if (parked.count > 0) {
    found.push({
      name: 'parked',
      says: `${many(parked.count, 'key')} parked for a person, the oldest created ${lasting(age(parked))} ago`,
      todo: 'oncekey list --state parked, then oncekey show each',
    })
  }
  if (late(outbox)) {
    found.push({
      name: 'outbox',
      says: `${many(outbox.count, 'job')} not delivered, the oldest staged ${lasting(age(outbox))} ago`,
      todo: 'see that something delivers the jobs of the outbox, and what it fails with',
    })
  }
  return found
}
