import { type Decision, decide, decideEnqueue } from '../../core/decision.js'
import { OncekeyError } from '../../core/errors.js'
import { checkKeyRef, type KeyRef, keyId } from '../../core/key.js'
import type { KeyRecord } from '../../core/record.js'
import type { EnqueueVerdict, KeyClaim, KeyStore, Verdict } from '../../core/store.js'
import { holderGone, outcomeUnknown } from '../../core/system-answers.js'
import { execute, isReport, report } from '../../core/verdict.js'
import { answerFields, type SeenKey, type Sighting, sightingOf, version } from './key-hash.js'
import { type Beginning, beginArguments, keyBegin } from './scripts/key-begin.js'
import { keyLook } from './scripts/key-look.js'
import { keySettle } from './scripts/key-settle.js'
import { keyTakeOver } from './scripts/key-take-over.js'
import type { Arguments, RunScript, Script } from './scripts/script.js'

/** After losing this many races, a claim answers "in progress", which is then true. */
const maxLooks = 20

/** How a request takes a key: held by itself, or enqueued for workers. */
interface Way<V> {
  readonly begin: Beginning
  decide(record: KeyRecord | undefined, claim: KeyClaim, now: number): Decision
  /** The verdict for a key that this claim has. */
  admit(record: KeyRecord): V
  /** The verdict if the key keeps changing. */
  readonly lastWord: Reported
}

type Reported = ReturnType<typeof report>

/**
 * Claims a key. The decision is made here, because fingerprints are compared with secrets that Redis must not have. One script carries it
 * out if the key has not changed since; otherwise the script returns the key's new state.
 */
export function claimer(run: RunScript, keepMs: number) {
  return {
    claim: (claim: KeyClaim): Promise<Verdict> =>
      meet<Verdict>(claim, { begin: 'held', decide, admit: execute, lastWord: { kind: 'in-progress', retryAfterMs: claim.leaseMs } }),

    enqueue: (claim: KeyClaim): Promise<EnqueueVerdict> =>
      meet<EnqueueVerdict>(claim, {
        begin: 'queued',
        decide: decideEnqueue,
        admit: ({ id }) => ({ kind: 'enqueued', id }),
        lastWord: { kind: 'in-progress', retryAfterMs: 0 },
      }),

    async peek(claim: KeyClaim): ReturnType<KeyStore['keyPeek']> {
      const { found, now } = await look(keyId(checkKeyRef(claim)), claim)
      const decision = decide(found?.record, claim, now)
      return isReport(decision) ? report(found?.record, decision, now) : undefined
    },

    look,
  }

  async function look(id: string, wanted?: KeyRef): Promise<Sighting> {
    return checked(wanted, sightingOf(id, await run(keyLook, id, [])))
  }

  /** Most claims create the key, so look and create are one script. Workers never create. */
  async function meet<V>(claim: KeyClaim, way: Way<V>): Promise<V | Reported> {
    const id = keyId(checkKeyRef(claim))
    let settled = false
    let seen = claim.worker ? await look(id, claim) : await begin(id, claim, way)
    for (let looks = 0; looks < maxLooks; looks += 1) {
      const { found, now } = seen
      if (seen.acted && found) return way.admit(found.record)
      const decision = way.decide(found?.record, claim, now)
      switch (decision.do) {
        case 'create':
        case 'recreate':
          seen = await begin(id, claim, way, found)
          break
        case 'recognise':
          return way.admit((found as SeenKey).record)
        case 'take-over':
          seen = await act(keyTakeOver, id, claim, [...version(found), claim.owner, claim.leaseMs, claim.worker ? 1 : 0])
          break
        case 'settle': {
          const { from, ms, floorMs } = claim.retention
          const ending = [from, ms, floorMs, 'reason', holderGone, ...answerFields(outcomeUnknown)]
          const after = await act(keySettle, id, claim, [...version(found), decision.as, ...ending])
          settled ||= after.acted
          // Settled by this claim: report it, do not hold it.
          seen = { ...after, acted: false }
          break
        }
        default:
          return { ...report(found?.record, decision, now), ...(settled ? { settled } : {}) }
      }
    }
    return way.lastWord
  }

  function begin<V>(id: string, claim: KeyClaim, way: Way<V>, over?: SeenKey): Promise<Sighting> {
    return act(keyBegin, id, claim, beginArguments(claim, way.begin, keepMs, over))
  }

  async function act(script: Script, id: string, claim: KeyClaim, args: Arguments): Promise<Sighting> {
    return checked(claim, sightingOf(id, await run(script, id, args)))
  }

  function checked(wanted: KeyRef | undefined, seen: Sighting): Sighting {
    const record = seen.found?.record
    if (!record || !wanted) return seen
    if (record.tenant === wanted.tenant && record.scope === wanted.scope && record.key === wanted.key) return seen
    throw new OncekeyError('store_key_collision', `Two different keys have the id ${record.id}. Neither was run; use another key.`)
  }
}
