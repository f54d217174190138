import { decide } from '../../core/decision.js'
import { OncekeyError } from '../../core/errors.js'
import { checkKeyRef, keyId } from '../../core/key.js'
import type { KeyRecord } from '../../core/record.js'
import type { KeyClaim, KeyStore, Verdict } from '../../core/store.js'
import { execute, isReport, report } from '../../core/verdict.js'
import type { Queryable } from './connections/connection.js'
import { type Found, keyClaim } from './queries/key-claim.js'
import { keyPeek } from './queries/key-peek.js'
import { keyRecreate } from './queries/key-recreate.js'
import { keySettle } from './queries/key-settle.js'
import { keyTakeOver } from './queries/key-take-over.js'
import type { Tables } from './tables.js'

/** A claim that loses this many races in a row says "in progress", which is then the truth. */
const maxLooks = 20

/** The claim as a whole: look, decide, act on the decision, and look again if the key changed meanwhile. */
export function claimer(tables: Tables) {
  const find = keyClaim(tables)
  const look = keyPeek(tables)
  const takeOver = keyTakeOver(tables)
  const recreate = keyRecreate(tables)
  const settle = keySettle(tables)

  return { claim, peek, read }

  async function claim(db: Queryable, wanted: KeyClaim): Promise<Verdict> {
    const id = keyId(checkKeyRef(wanted))
    let settled = false
    for (let looks = 0; looks < maxLooks; looks += 1) {
      const found = await find(db, id, wanted)
      const verdict = found && (await follow(db, found, wanted))
      if (verdict === 'settled') settled = true
      else if (verdict) return settled && (verdict.kind === 'parked' || verdict.kind === 'replay') ? { ...verdict, settled } : verdict
    }
    return { kind: 'in-progress', retryAfterMs: wanted.leaseMs }
  }

  async function peek(db: Queryable, wanted: KeyClaim): ReturnType<KeyStore['keyPeek']> {
    const found = await look(db, wanted.tenant, keyId(checkKeyRef(wanted)))
    if (!found) return undefined
    const decision = decide(found.record, wanted, found.now)
    return isReport(decision) ? report(found.record, decision) : undefined
  }

  async function read(db: Queryable, tenant: string, id: string): Promise<KeyRecord | undefined> {
    return (await look(db, tenant, id))?.record
  }

  /** What a found key comes to; undefined if it changed meanwhile, and must be looked at again. */
  async function follow(db: Queryable, { record, inserted, now }: Found, wanted: KeyClaim): Promise<Verdict | 'settled' | undefined> {
    if (inserted) return execute(record)
    if (record.scope !== wanted.scope || record.key !== wanted.key) {
      throw new OncekeyError('store_key_collision', `Two different keys have the id ${record.id}. Neither was run; use another key.`)
    }
    const decision = decide(record, wanted, now)
    switch (decision.do) {
      case 'recognise':
        return execute(record)
      case 'take-over': {
        const taken = await takeOver(db, record, wanted)
        return taken && execute(taken)
      }
      case 'recreate': {
        const created = await recreate(db, record, wanted)
        return created && execute(created)
      }
      case 'settle':
        return (await settle(db, record, decision.as, wanted.retention)) ? 'settled' : undefined
      case 'create':
        return undefined
      default:
        return report(record, decision)
    }
  }
}
