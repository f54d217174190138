import type { Answer } from '../../core/answer.js'
import type { Clock } from '../../core/clock.js'
import type { KeyRecord } from '../../core/record.js'
import type { EndedKey, UpkeepStore } from '../../core/store.js'
import { holderGone, neverStarted, nobodyCame, outcomeUnknown } from '../../core/system-answers.js'

const hourMs = 3_600_000

/** Background work on keys in memory. */
export function memoryUpkeep(clock: Clock, records: Map<string, KeyRecord>, due: ReadonlyMap<string, number>): UpkeepStore {
  let turn: { readonly holder: string; readonly until: number } | undefined

  return {
    async keysSweep({ holder, turnMs }) {
      const now = clock.now()
      if (turn && turn.holder !== holder && turn.until > now) return { turn: false }
      turn = { holder, until: now + turnMs }
      const gone = all().filter(({ state, leaseUntil }) => state === 'processing' && leaseUntil !== null && leaseUntil <= now)
      return { turn: true, swept: gone.map((record) => sweep(record, now)), lookedUpTo: null }
    },

    async keysWaiting({ scopes, limit }) {
      const dueAt = ({ id, createdAt }: KeyRecord) => due.get(id) ?? createdAt
      return all()
        .filter((record) => record.state === 'pending' && record.request && scopes.includes(record.scope) && dueAt(record) <= clock.now())
        .sort((one, other) => dueAt(one) - dueAt(other))
        .slice(0, limit)
        .map(({ tenant, scope, key, attempts, reason }) => ({ tenant, scope, key, attempts, holderGone: reason === holderGone }))
    },

    async keysTimeOut({ limit }) {
      const now = clock.now()
      const graceMs = ({ fence, request }: KeyRecord) => (fence > 0 && request ? 24 * hourMs : 0)
      const overdue = all().filter((record) => record.state === 'pending' && record.expiresAt + graceMs(record) <= now)
      return overdue.slice(0, limit).map((record) => {
        const expiresAt = now + record.expiresAt - record.createdAt
        return record.fence === 0
          ? end(record, 'failed', neverStarted, nobodyCame, expiresAt)
          : end(record, 'parked', outcomeUnknown, nobodyCame, expiresAt)
      })
    },
  }

  function all(): KeyRecord[] {
    return [...records.values()]
  }

  function sweep(record: KeyRecord, now: number): EndedKey {
    const expiresAt = Math.max(record.expiresAt, now + hourMs)
    if (record.afterFailure === 'store') return end(record, 'failed', outcomeUnknown, holderGone, expiresAt)
    if (record.afterFailure === 'park') return end(record, 'parked', outcomeUnknown, holderGone, expiresAt)
    const { tenant, scope, key } = record
    const fence = record.fence + 1
    records.set(record.id, { ...record, state: 'pending', fence, leaseUntil: null, reason: holderGone })
    return { tenant, scope, key, fence, to: 'pending', reason: holderGone }
  }

  /** The fence rises, so that the holder cannot return. */
  function end(record: KeyRecord, to: 'failed' | 'parked', answer: Answer, reason: string, expiresAt: number): EndedKey {
    const { tenant, scope, key } = record
    const fence = record.fence + 1
    records.set(record.id, { ...record, state: to, fence, leaseUntil: null, answer, reason, expiresAt })
    return { tenant, scope, key, fence, to, reason }
  }
}
