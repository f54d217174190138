import type { Answer } from '../../core/answer.js'
import { type Clock, systemClock } from '../../core/clock.js'
import { type Decision, decide, decideEnqueue } from '../../core/decision.js'
import { checkKeyRef, checkTenant, keyId } from '../../core/key.js'
import { isExpired, type KeyRecord, type Lease } from '../../core/record.js'
import { expiryAtFinish } from '../../core/retention.js'
import type { KeyClaim, Store, WriteResult } from '../../core/store.js'
import { holderGone, outcomeUnknown } from '../../core/system-answers.js'
import { execute, isReport, report } from '../../core/verdict.js'
import { memoryTurns } from './memory-turns.js'
import { memoryUpkeep } from './memory-upkeep.js'

/**
 * The smallest correct store: for unit tests, and to read first. Nothing in it awaits, so each verb is atomic. Its keys
 * are lost with the process: never use it to protect payments.
 */
export function memoryStore({ clock = systemClock }: { clock?: Clock } = {}): Store {
  const records = new Map<string, KeyRecord>()
  /** When a worker may take a waiting key. */
  const due = new Map<string, number>()

  return {
    durability: 'process',
    upkeep: memoryUpkeep(clock, records, due),
    turns: memoryTurns(clock),

    keyClaim: async (claim) => meet(claim, { decide, begin: newRecord, admit: execute }),

    keyEnqueue: async (claim) => meet(claim, { decide: decideEnqueue, begin: queuedRecord, admit: ({ id }) => ({ kind: 'enqueued', id }) }),

    async keyHeartbeat({ leases }) {
      return leases.map((lease) => {
        const record = heldBy(lease)
        if (!record) return 'lost'
        save({ ...record, leaseUntil: clock.now() + lease.leaseMs })
        return 'renewed'
      })
    },

    async keyFinish({ lease, state, answer, retention, reason = null }) {
      return write(lease, state, (record) => ({
        answer: copy(answer),
        reason,
        expiresAt: expiryAtFinish(record.createdAt, clock.now(), retention),
      }))
    },

    async keyRelease({ lease, reason = null, dueInMs = 0 }) {
      return write(lease, 'pending', () => {
        due.set(lease.id, clock.now() + dueInMs)
        return { reason }
      })
    },

    async keyPark({ lease, answer, reason }) {
      return write(lease, 'parked', () => ({ answer: copy(answer), reason }))
    },

    async keyWithdraw(claim) {
      const id = keyId(checkKeyRef(claim))
      const record = records.get(id)
      if (record?.owner !== claim.owner) return 'absent'
      const { state, fence, reason } = record
      const isBegun = record.incarnation === claim.owner
      const wasTakenBack = fence === 2 && reason === holderGone && (state === 'pending' || state === 'parked')
      if (state !== 'processing' && !(isBegun && wasTakenBack)) return 'absent'
      due.delete(id)
      // A new key never ran: delete it. A taken-over key waits for its next holder.
      if (isBegun) records.delete(id)
      else save({ ...record, state: 'pending', leaseUntil: null })
      return 'done'
    },

    async keyPeek(claim) {
      const record = records.get(keyId(checkKeyRef(claim)))
      const now = clock.now()
      const decision = decide(record, claim, now)
      return isReport(decision) ? given(report(record, decision, now)) : undefined
    },

    async keyRead(ref) {
      const record = records.get(keyId(checkKeyRef(ref)))
      return record && copyOf(record)
    },

    async keyReadById({ tenant, id }) {
      checkTenant(tenant)
      const record = records.get(id)
      return record?.tenant === tenant ? { record: copyOf(record), now: clock.now() } : undefined
    },

    async keyReap({ limit }) {
      const expired = [...records.values()].filter((record) => isExpired(record, clock.now())).slice(0, limit)
      for (const { id } of expired) {
        records.delete(id)
        due.delete(id)
      }
      return expired.length
    },
  }

  /** A request meets its key. */
  function meet<V>(claim: KeyClaim, { decide, begin, admit }: Way<V>): V | ReturnType<typeof report> {
    const id = keyId(checkKeyRef(claim))
    let settled = false
    for (;;) {
      const now = clock.now()
      const record = records.get(id)
      const decision = decide(record, claim, now)
      switch (decision.do) {
        case 'create':
        case 'recreate':
          due.delete(id)
          return admit(save(begin(id, claim, now)))
        case 'recognise':
          return admit(record as KeyRecord)
        case 'take-over':
          return admit(save(takenOver(record as KeyRecord, claim, now)))
        case 'settle':
          save(ended(record as KeyRecord, decision.as, claim, now))
          settled = true
          continue
        default:
          return { ...given(report(record, decision, now)), ...(settled ? { settled } : {}) }
      }
    }
  }

  function save(record: KeyRecord): KeyRecord {
    records.set(record.id, record)
    return record
  }

  /** The record, if this is its newest lease and still in force. */
  function heldBy(lease: Lease): KeyRecord | undefined {
    const record = records.get(lease.id)
    const newest = record?.incarnation === lease.incarnation && record.fence === lease.fence
    return newest && record.state === 'processing' ? record : undefined
  }

  function write(lease: Lease, state: KeyRecord['state'], changes: (record: KeyRecord) => Partial<KeyRecord>): WriteResult {
    const held = heldBy(lease)
    if (held) {
      save({ ...held, state, leaseUntil: null, ...changes(held) })
      return 'done'
    }
    // The same write repeated: its acknowledgement was lost.
    const record = records.get(lease.id)
    const repeated = record?.incarnation === lease.incarnation && record.fence === lease.fence && record.state === state
    return repeated ? 'done' : 'lost'
  }
}

/** How a request takes a key: held by itself, or enqueued for workers. */
interface Way<V> {
  decide(record: KeyRecord | undefined, claim: KeyClaim, now: number): Decision
  begin(id: string, claim: KeyClaim, now: number): KeyRecord
  /** The verdict for a key that this claim has. */
  admit(record: KeyRecord): V
}

function newRecord(id: string, claim: KeyClaim, now: number): KeyRecord {
  return {
    id,
    tenant: claim.tenant,
    scope: claim.scope,
    key: claim.key,
    state: 'processing',
    incarnation: claim.owner,
    fence: 1,
    owner: claim.owner,
    recoveryPoint: null,
    afterFailure: claim.afterFailure,
    async: false,
    attempts: 0,
    fingerprint: claim.fingerprint?.bytes ?? null,
    leaseUntil: now + claim.leaseMs,
    createdAt: now,
    expiresAt: now + claim.retention.ms,
    answer: null,
    reason: null,
    request: claim.request && new Uint8Array(claim.request),
    hasRequest: claim.request !== null,
  }
}

function queuedRecord(id: string, claim: KeyClaim, now: number): KeyRecord {
  return { ...newRecord(id, claim, now), state: 'pending', async: true, fence: 0, leaseUntil: null }
}

function takenOver(record: KeyRecord, { owner, leaseMs, worker }: KeyClaim, now: number): KeyRecord {
  const attempts = record.attempts + (worker ? 1 : 0)
  return { ...record, state: 'processing', fence: record.fence + 1, owner, attempts, leaseUntil: now + leaseMs }
}

/** The holder is gone and its work must not run again. The fence rises, so that the holder cannot return. */
function ended(record: KeyRecord, state: 'failed' | 'parked', { retention }: KeyClaim, now: number): KeyRecord {
  return {
    ...record,
    state,
    fence: record.fence + 1,
    leaseUntil: null,
    answer: outcomeUnknown,
    reason: holderGone,
    expiresAt: expiryAtFinish(record.createdAt, now, retention),
  }
}

function copyOf(record: KeyRecord): KeyRecord {
  const { answer, request } = record
  return { ...record, answer: answer && copy(answer), request: request && new Uint8Array(request) }
}

function given<V extends object>(verdict: V): V {
  return 'answer' in verdict ? { ...verdict, answer: copy(verdict.answer as Answer) } : verdict
}

/** Stored bytes must not change with the caller's. (`slice()` of a Buffer does not copy.) */
function copy(answer: Answer): Answer {
  return { ...answer, headers: answer.headers.map(([name, value]) => [name, value]), body: new Uint8Array(answer.body) }
}
