import { type Decision, decide, decideEnqueue } from '../../core/decision.js'
import { OncekeyError } from '../../core/errors.js'
import { checkKeyRef, keyId } from '../../core/key.js'
import type { KeyRecord } from '../../core/record.js'
import type { EnqueueVerdict, KeyClaim, KeyStore, Verdict } from '../../core/store.js'
import { execute, isReport, report } from '../../core/verdict.js'
import type { Bounded } from './bounded.js'
import { isLockTimeout } from './driver-errors.js'
import { type Found, keyClaim } from './queries/key-claim.js'
import { keyPeek } from './queries/key-peek.js'
import { keyRecreate } from './queries/key-recreate.js'
import { held, queued } from './queries/key-row.js'
import { keySettle } from './queries/key-settle.js'
import { keyTakeOver } from './queries/key-take-over.js'
import { largeParts } from './queries/large-parts.js'
import type { Tables } from './tables.js'

/** A claim that loses this many races in a row says "in progress", which is then the truth. */
const maxLooks = 20

/** `retryAfterMs` for a key whose row another session has locked: when it ends is unknown. */
const lockedMs = 1_000

/** How often a claim inside the user's transaction looks whether a locked row is free. */
const lookAgainMs = 20

type Find = (db: Bounded, id: string, claim: KeyClaim) => Promise<Found | undefined>

/** How a request may take a key: by holding it, or by leaving it to workers. */
interface Way<V> {
  readonly find: Find
  readonly recreate: ReturnType<typeof keyRecreate>
  decide(record: KeyRecord, wanted: KeyClaim, now: number): Decision
  /** The verdict for a key that is this claim's. */
  admit(record: KeyRecord): V
  /** When to come back to a key that changes faster than it can be looked at. */
  retryAfterMs(wanted: KeyClaim): number
}

type Reported = ReturnType<typeof report>
type Followed<V> = V | Reported | 'settled' | 'locked' | undefined

/** How a claim continues that one look did not decide. */
interface Again {
  readonly first: Found | undefined
  readonly looks?: number
  /** The verdict if the row is locked; undefined to look again. */
  readonly onLocked?: () => Promise<Reported | undefined>
}

const reportLocked = async (): Promise<Reported> => ({ kind: 'in-progress', retryAfterMs: lockedMs })

async function waitForLock(db: Bounded): Promise<undefined> {
  if (db.leftMs() <= 2 * lookAgainMs) throw keyLocked()
  await new Promise((resolve) => void setTimeout(resolve, lookAgainMs))
}

/** The claim as a whole: look, decide, act on the decision, and look again if the key changed meanwhile. */
export function claimer(tables: Tables, findPooled?: Find) {
  const look = keyPeek(tables)
  const takeOver = keyTakeOver(tables)
  const settle = keySettle(tables)
  const { completed } = largeParts(tables)
  const claimHeld = keyClaim(tables, held)
  const findWithin: Find = (db, id, claim) => claimHeld(db, id, claim, { isWithin: true })
  const hold = { recreate: keyRecreate(tables, held), decide, admit: execute, retryAfterMs: ({ leaseMs }: KeyClaim) => leaseMs }
  const leave = {
    find: keyClaim(tables, queued),
    recreate: keyRecreate(tables, queued),
    decide: decideEnqueue,
    admit: ({ id }: KeyRecord): EnqueueVerdict => ({ kind: 'enqueued', id }),
    retryAfterMs: () => 0,
  }

  return {
    /** What the statements of a claim are rejected with goes to `recover`. */
    claim: (db: Bounded, wanted: KeyClaim, recover?: (error: unknown) => Promise<Verdict>): Promise<Verdict> => {
      const find = wanted.worker ? findOnly : (findPooled ?? claimHeld)
      return meet<Verdict>(db, wanted, { ...hold, find }, recover)
    },
    enqueue: (db: Bounded, wanted: KeyClaim): Promise<EnqueueVerdict> => meet<EnqueueVerdict>(db, wanted, leave),
    claimWithin,
    peek,
    /** The whole record, or all but its request, and the database's time. */
    async read(db: Bounded, tenant: string, id: string, parts: { readonly request?: boolean } = {}): Promise<Found | undefined> {
      for (let looks = 1; looks <= maxLooks; looks += 1) {
        const found = await look(db, tenant, id)
        const whole = found && (await completed(db, found, parts))
        if (!found || whole) return whole
      }
      throw new OncekeyError('store_timeout', 'The key changed faster than it could be read: try again.')
    },
    one: claimHeld,
  }

  /** For workers, which begin nothing. */
  function findOnly(db: Bounded, id: string, { tenant }: KeyClaim): Promise<Found | undefined> {
    return look(db, tenant, id)
  }

  /** Most keys are new, or finished: what their claim comes to is known from one look. */
  function meet<V extends Verdict | EnqueueVerdict>(
    db: Bounded,
    wanted: KeyClaim,
    way: Way<V>,
    recover?: (error: unknown) => Promise<V | Reported>,
  ): Promise<V | Reported> {
    const id = keyId(checkKeyRef(wanted))
    return way.find(db, id, wanted).then(
      (found) => {
        if (found?.inserted) return way.admit(found.record)
        const decision = found && found.left.answer === 0 && decisionOn(found, wanted, way)
        if (found && decision && isReport(decision)) return report(found.record, decision, found.now)
        const verdict = meetAgain(db, id, wanted, way, { first: found })
        return recover ? verdict.catch(recover) : verdict
      },
      (error: unknown) => {
        // An open transaction has inserted the key.
        if (isLockTimeout(error)) return { kind: 'in-progress', retryAfterMs: lockedMs }
        if (recover) return recover(error)
        throw error
      },
    )
  }

  async function meetAgain<V extends Verdict | EnqueueVerdict>(
    db: Bounded,
    id: string,
    wanted: KeyClaim,
    way: Way<V>,
    { first, looks = maxLooks, onLocked = reportLocked }: Again,
  ): Promise<V | Reported> {
    let settled = false
    let found = first
    for (let look = 1; look <= looks; look += 1) {
      const verdict = await next(found)
      if (verdict === 'settled') settled = true
      else if (verdict) return settled ? toldAsSettled(verdict) : verdict
      if (look < looks) found = await way.find(db, id, wanted)
    }
    return { kind: 'in-progress', retryAfterMs: way.retryAfterMs(wanted) }

    async function next(found: Found | undefined): Promise<V | Reported | 'settled' | undefined> {
      if (!found) return wanted.worker ? { kind: 'in-progress', retryAfterMs: 0 } : undefined
      const followed = await follow(db, found, wanted, way)
      return followed === 'locked' ? onLocked() : followed
    }
  }

  /**
   * In a transaction of the user's: waits for another transaction that has the key, up to its caller's limit. Then it throws: a statement has
   * failed, so the transaction cannot continue.
   */
  async function claimWithin(db: Bounded, wanted: KeyClaim): Promise<Verdict> {
    const way = { ...hold, find: wanted.worker ? findOnly : findWithin }
    const id = keyId(checkKeyRef(wanted))
    try {
      const first = await way.find(db, id, wanted)
      return await meetAgain<Verdict>(db, id, wanted, way, { first, looks: Number.POSITIVE_INFINITY, onLocked: () => waitForLock(db) })
    } catch (error) {
      throw isLockTimeout(error) ? keyLocked(error) : error
    }
  }

  async function peek(db: Bounded, wanted: KeyClaim): ReturnType<KeyStore['keyPeek']> {
    const found = await look(db, wanted.tenant, keyId(checkKeyRef(wanted)))
    if (!found) return undefined
    const decision = decide(found.record, wanted, found.now)
    return isReport(decision) ? reported(db, found, decision) : undefined
  }

  /** Undefined if the key changed while its answer was read. */
  async function reported(db: Bounded, found: Found, decision: Parameters<typeof report>[1]): Promise<Reported | undefined> {
    const needsAnswer = decision.do === 'replay' || decision.do === 'report-parked'
    const whole = needsAnswer && found.left.answer > 0 ? await completed(db, found, { request: false }) : found
    return whole && report(whole.record, decision, found.now)
  }

  /** What a found key comes to; undefined if it changed meanwhile, and must be looked at again. */
  async function follow<V>(db: Bounded, found: Found, wanted: KeyClaim, way: Way<V>): Promise<Followed<V>> {
    const { record, inserted } = found
    if (inserted) return way.admit(record)
    const decision = decisionOn(found, wanted, way)
    switch (decision.do) {
      case 'recognise':
        return admitted(record)
      case 'take-over': {
        const taken = await takeOver(db, record, wanted)
        return taken === 'locked' ? taken : taken && admitted(taken)
      }
      case 'recreate': {
        const created = await way.recreate(db, record, wanted)
        return created === 'locked' ? created : created && way.admit(created)
      }
      case 'settle': {
        const result = await settle(db, record, decision.as, wanted.retention)
        return result === 'done' ? 'settled' : result === 'locked' ? result : undefined
      }
      case 'create':
        return undefined
      default:
        return reported(db, found, decision)
    }

    /** With the stored request, which does not change while the key is ours. */
    async function admitted(own: KeyRecord): Promise<V | undefined> {
      const whole = await completed(db, { ...found, record: own }, { answer: false })
      return whole && way.admit(whole.record)
    }
  }
}

const keyLocked = (cause?: unknown) =>
  new OncekeyError('key_locked', 'Another transaction has this key, and did not end in time: retry later.', { cause })

/** It is this claim that ended what an earlier holder had left. */
function toldAsSettled<V extends Verdict | EnqueueVerdict>(verdict: V): V {
  return verdict.kind === 'parked' || verdict.kind === 'replay' ? { ...verdict, settled: true } : verdict
}

function decisionOn<V>({ record, now }: Found, wanted: KeyClaim, { decide }: Way<V>): Decision {
  if (record.scope !== wanted.scope || record.key !== wanted.key) {
    throw new OncekeyError('store_key_collision', `Two different keys have the id ${record.id}. Neither was run; use another key.`)
  }
  return decide(record, wanted, now)
}
