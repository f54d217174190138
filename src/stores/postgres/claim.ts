import { type Decision, decide, decideEnqueue } from '../../core/decision.js'
import { OncekeyError } from '../../core/errors.js'
import { checkKeyRef, keyId } from '../../core/key.js'
import type { KeyRecord } from '../../core/record.js'
import type { EnqueueVerdict, KeyClaim, KeyStore, Verdict } from '../../core/store.js'
import { execute, isReport, report } from '../../core/verdict.js'
import type { Queryable } from './connections/connection.js'
import { type Found, keyClaim } from './queries/key-claim.js'
import { keyPeek } from './queries/key-peek.js'
import { keyRecreate } from './queries/key-recreate.js'
import { held, queued } from './queries/key-row.js'
import { keySettle } from './queries/key-settle.js'
import { keyTakeOver } from './queries/key-take-over.js'
import type { Tables } from './tables.js'

/** A claim that loses this many races in a row says "in progress", which is then the truth. */
const maxLooks = 20

/** How a request may take a key: by holding it, or by leaving it to workers. */
interface Way<V> {
  readonly find: ReturnType<typeof keyClaim>
  readonly recreate: ReturnType<typeof keyRecreate>
  decide(record: KeyRecord, wanted: KeyClaim, now: number): Decision
  /** The verdict for a key that is this claim's. */
  admit(record: KeyRecord): V
  /** When to come back to a key that changes faster than it can be looked at. */
  retryAfterMs(wanted: KeyClaim): number
}

type Reported = ReturnType<typeof report>

/** The claim as a whole: look, decide, act on the decision, and look again if the key changed meanwhile. */
export function claimer(tables: Tables, find: ReturnType<typeof keyClaim> = keyClaim(tables, held)) {
  const look = keyPeek(tables)
  const takeOver = keyTakeOver(tables)
  const settle = keySettle(tables)
  const hold = { find, recreate: keyRecreate(tables, held), decide, admit: execute, retryAfterMs: ({ leaseMs }: KeyClaim) => leaseMs }
  const leave = {
    find: keyClaim(tables, queued),
    recreate: keyRecreate(tables, queued),
    decide: decideEnqueue,
    admit: ({ id }: KeyRecord): EnqueueVerdict => ({ kind: 'enqueued', id }),
    retryAfterMs: () => 0,
  }

  return {
    /** What the statements of a claim are rejected with goes to `recover`. */
    claim: (db: Queryable, wanted: KeyClaim, recover?: (error: unknown) => Promise<Verdict>): Promise<Verdict> => {
      const find = wanted.worker ? findOnly : hold.find
      return meet<Verdict>(db, wanted, hold, find, recover)
    },
    enqueue: (db: Queryable, wanted: KeyClaim): Promise<EnqueueVerdict> => meet<EnqueueVerdict>(db, wanted, leave, leave.find),
    peek,
    look,
    find,
  }

  /** For workers, which begin nothing. */
  async function findOnly(db: Queryable, id: string, { tenant }: KeyClaim): Promise<Found | undefined> {
    const found = await look(db, tenant, id)
    return found && { ...found, inserted: false }
  }

  /** Most keys are new, or finished: what their claim comes to is known from one look. */
  function meet<V extends Verdict | EnqueueVerdict>(
    db: Queryable,
    wanted: KeyClaim,
    way: Way<V>,
    find: Way<V>['find'] | typeof findOnly,
    recover?: (error: unknown) => Promise<V | Reported>,
  ): Promise<V | Reported> {
    const id = keyId(checkKeyRef(wanted))
    return find(db, id, wanted).then((found) => {
      if (found?.inserted) return way.admit(found.record)
      const decision = found && decisionOn(found, wanted, way)
      if (found && decision && isReport(decision)) return report(found.record, decision, found.now)
      const verdict = meetAgain(db, id, wanted, way, find, found)
      return recover ? verdict.catch(recover) : verdict
    }, recover)
  }

  async function meetAgain<V extends Verdict | EnqueueVerdict>(
    db: Queryable,
    id: string,
    wanted: KeyClaim,
    way: Way<V>,
    find: Way<V>['find'] | typeof findOnly,
    first: Found | undefined,
  ): Promise<V | Reported> {
    let settled = false
    let found = first
    for (let looks = 1; looks <= maxLooks; looks += 1) {
      if (!found && wanted.worker) return { kind: 'in-progress', retryAfterMs: 0 }
      const verdict = found && (await follow(db, found, wanted, way))
      if (verdict === 'settled') settled = true
      else if (verdict) return settled ? toldAsSettled(verdict) : verdict
      if (looks < maxLooks) found = await find(db, id, wanted)
    }
    return { kind: 'in-progress', retryAfterMs: way.retryAfterMs(wanted) }
  }

  async function peek(db: Queryable, wanted: KeyClaim): ReturnType<KeyStore['keyPeek']> {
    const found = await look(db, wanted.tenant, keyId(checkKeyRef(wanted)))
    if (!found) return undefined
    const decision = decide(found.record, wanted, found.now)
    return isReport(decision) ? report(found.record, decision, found.now) : undefined
  }

  /** What a found key comes to; undefined if it changed meanwhile, and must be looked at again. */
  async function follow<V>(db: Queryable, found: Found, wanted: KeyClaim, way: Way<V>): Promise<V | Reported | 'settled' | undefined> {
    const { record, inserted, now } = found
    const { recreate, admit } = way
    if (inserted) return admit(record)
    const decision = decisionOn(found, wanted, way)
    switch (decision.do) {
      case 'recognise':
        return admit(record)
      case 'take-over': {
        const taken = await takeOver(db, record, wanted)
        return taken && admit(taken)
      }
      case 'recreate': {
        const created = await recreate(db, record, wanted)
        return created && admit(created)
      }
      case 'settle':
        return (await settle(db, record, decision.as, wanted.retention)) ? 'settled' : undefined
      case 'create':
        return undefined
      default:
        return report(record, decision, now)
    }
  }
}

/** It is this claim that ended what somebody else had left. */
function toldAsSettled<V extends Verdict | EnqueueVerdict>(verdict: V): V {
  return verdict.kind === 'parked' || verdict.kind === 'replay' ? { ...verdict, settled: true } : verdict
}

function decisionOn<V>({ record, now }: Found, wanted: KeyClaim, { decide }: Way<V>): Decision {
  if (record.scope !== wanted.scope || record.key !== wanted.key) {
    throw new OncekeyError('store_key_collision', `Two different keys have the id ${record.id}. Neither was run; use another key.`)
  }
  return decide(record, wanted, now)
}
