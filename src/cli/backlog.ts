import type { Backlog, KeysCount } from '../stores/postgres/queries/keys-count.js'
import { lasting, many } from './words.js'

export interface Trouble {
  readonly name: 'stuck' | 'overdue' | 'parked' | 'outbox' | 'dead letters'
  readonly says: string
  readonly todo: string
}

/** Workers poll every few seconds; later than this means that something is wrong. */
export const patienceMs = 60_000

/** The counts that need attention. Parked keys and dead letters always: only an operator resolves them. */
export function troubles(counts: KeysCount, lateMs: number = patienceMs): Trouble[] {
  const age = ({ since }: Backlog) => (since === null ? 0 : counts.now - since)
  const late = (backlog: Backlog) => backlog.count > 0 && age(backlog) > lateMs
  const { stuck, overdue, parked, outbox, deadLetters } = counts
  const found: Trouble[] = []
  if (late(stuck)) {
    found.push({
      name: 'stuck',
      says: `${many(stuck.count, 'key')} processing past the lease, the oldest for ${lasting(age(stuck))}: the holders are gone`,
      todo: 'run a worker, or oncekey sweep now; a client that retries takes its key over',
    })
  }
  if (late(overdue)) {
    found.push({
      name: 'overdue',
      says: `${many(overdue.count, 'key')} waiting, the oldest due for ${lasting(age(overdue))}`,
      todo: 'check that a worker runs, and its errors: oncekey list --state overdue',
    })
  }
  if (parked.count > 0) {
    found.push({
      name: 'parked',
      says: `${many(parked.count, 'key')} parked, the oldest created ${lasting(age(parked))} ago`,
      todo: 'oncekey list --state parked, then oncekey show each',
    })
  }
  if (late(outbox)) {
    found.push({
      name: 'outbox',
      says: `${many(outbox.count, 'job')} not delivered, the oldest late by ${lasting(age(outbox))}`,
      todo: 'check that a relay runs, and its errors: oncekey jobs',
    })
  }
  if (deadLetters.count > 0) {
    found.push({
      name: 'dead letters',
      says: `${many(deadLetters.count, 'dead letter')}, the first ${lasting(age(deadLetters))} ago: they may hold their groups`,
      todo: 'oncekey jobs --state dead, then oncekey jobs show each, and retry or discard it',
    })
  }
  return found
}
