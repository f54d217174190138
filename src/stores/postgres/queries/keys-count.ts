import type { KeyState } from '../../../core/record.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { deliverableSince } from './job-row.js'
import { databaseNow, epochMs } from './key-row.js'
import { keyKinds } from './keys-list.js'

/** How many, and since when the oldest of them is late. Null where there is none. */
export interface Backlog {
  readonly count: number
  readonly since: number | null
}

export interface KeysCount {
  /** The database's time when it counted. */
  readonly now: number
  readonly states: Readonly<Record<KeyState, number>>
  /** Processing past the lease: the holder is gone, and no sweep or retry has come since. */
  readonly stuck: Backlog
  /** Pending and due: they wait for a worker, or for a client to come back. */
  readonly overdue: Backlog
  /** Parked for a person, by the age of the key. */
  readonly parked: Backlog
  /** Finished and past their retention: for the reaper. */
  readonly expired: Backlog
  /** Jobs that are staged and not delivered, but for those that were given up. Since when the oldest could have been. */
  readonly outbox: Backlog
  /** Jobs that were given up, for a person. Since when the first of them is. */
  readonly deadLetters: Backlog
}

/** The state of the whole table in one statement and one snapshot. It reads every row. */
export function keysCount({ keys, jobs }: Tables) {
  const states: KeyState[] = ['pending', 'processing', 'complete', 'failed', 'parked']
  const count = (kind: keyof typeof keyKinds) => `count(*) filter (where ${keyKinds[kind]})::float8 as ${kind}`
  const since = (kind: keyof typeof keyKinds, moment: string) =>
    `${epochMs(`min(${moment}) filter (where ${keyKinds[kind]})`)} as ${kind}_since`
  const ofJobs = (value: string, condition: string) => `(select ${value} from ${jobs} where ${condition})`
  const text = `
    select ${databaseNow}, ${[...states, 'stuck' as const, 'overdue' as const, 'expired' as const].map(count).join(', ')},
      ${since('stuck', 'locked_until')}, ${since('overdue', 'greatest(due_at, created_at)')},
      ${since('parked', 'created_at')}, ${since('expired', 'expires_at')},
      ${ofJobs('count(*)::float8', 'dead_at is null')} as outbox,
      ${ofJobs(epochMs(`min(${deliverableSince})`), `dead_at is null and ${deliverableSince} <= clock_timestamp()`)} as outbox_since,
      ${ofJobs('count(*)::float8', 'dead_at is not null')} as dead_letters,
      ${ofJobs(epochMs('min(dead_at)'), 'dead_at is not null')} as dead_letters_since
    from ${keys}`

  return async (db: Queryable): Promise<KeysCount> => {
    const [row = {}] = await db.query(text, [])
    const backlog = (kind: string): Backlog => ({ count: row[kind], since: row[`${kind}_since`] })
    return {
      now: row.now,
      states: Object.fromEntries(states.map((state) => [state, row[state]])) as Record<KeyState, number>,
      stuck: backlog('stuck'),
      overdue: backlog('overdue'),
      parked: backlog('parked'),
      expired: backlog('expired'),
      outbox: backlog('outbox'),
      deadLetters: backlog('dead_letters'),
    }
  }
}
