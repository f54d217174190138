import type { Answer } from './answer.js'
import type { OncekeyError } from './errors.js'
import { checkKeyRef, type KeyRef, keyId } from './key.js'
import { type EncryptionOptions, type KeyRing, keyRing } from './key-ring.js'
import type { KeyRecord } from './record.js'
import { longestDelayMs } from './retry-delay.js'
import { openAnswer, openPayload, openRequest, type Place, sealAnswer, sealPayload, sealRequest } from './sealing.js'
import type {
  EnqueueVerdict,
  JobPayload,
  JobRecord,
  JobRef,
  KeyClaim,
  KeyFinish,
  KeyStore,
  Limit,
  OutboxStore,
  StepStore,
  Store,
  Verdict,
} from './store.js'

/**
 * The same store with answers, requests and job payloads encrypted: it seals what it stores and opens what it reads. Without `encryption` it
 * seals nothing and refuses sealed data, so that no client is sent ciphertext.
 *
 * `createOnce` wraps its store in it. It is public for code that reads a store directly.
 */
export function sealedStore<Tx>(store: Store<Tx>, encryption?: EncryptionOptions): Store<Tx> {
  const ring = encryption === undefined ? undefined : keyRing(encryption)
  const { steps, upkeep, outbox, turns } = store
  /** Async only for claims with something to seal, which few have. */
  const claimSealed = async (claim: KeyClaim, limit?: Limit) => store.keyClaim(sealedClaim(ring, claim), limit)

  return {
    get durability() {
      return store.durability
    },

    keyClaim: (claim, limit) =>
      (claim.request ? claimSealed(claim, limit) : store.keyClaim(claim, limit)).then((verdict) =>
        openedClaim(store, ring, claim, verdict),
      ),
    keyEnqueue: async (claim, limit) => openedVerdict(ring, claim, await store.keyEnqueue(sealedClaim(ring, claim), limit)),
    keyWithdraw: (claim, limit) => store.keyWithdraw(claim, limit),
    keyHeartbeat: (heartbeat, limit) => store.keyHeartbeat(heartbeat, limit),
    keyFinish: (finish, limit) => store.keyFinish(ring ? sealedFinish(ring, finish) : finish, limit),
    keyRelease: (release, limit) => store.keyRelease(release, limit),
    keyPark: (park, limit) => store.keyPark({ ...park, answer: sealedAnswer(ring, park.lease, park.answer) }, limit),
    async keyPeek(claim, limit) {
      const verdict = await store.keyPeek(sealedClaim(ring, claim), limit)
      return verdict && openedVerdict(ring, claim, verdict)
    },
    async keyRead(ref, limit, parts) {
      const record = await store.keyRead(ref, limit, parts)
      return record && openedRecord(ring, ref, record)
    },
    async keyReadById(wanted, limit, parts) {
      const seen = await store.keyReadById(wanted, limit, parts)
      return seen && { ...seen, record: openedRecord(ring, seen.record, seen.record) }
    },
    keyReap: (reap, limit) => store.keyReap(reap, limit),

    ...(upkeep ? { upkeep } : {}),
    ...(outbox ? { outbox: openedOutbox(outbox, ring) } : {}),
    ...(turns ? { turns } : {}),
    ...(steps ? { steps: sealedSteps(steps, ring) } : {}),
  }
}

function openedClaim(store: KeyStore, ring: KeyRing | undefined, claim: KeyClaim, verdict: Verdict): Verdict | Promise<never> {
  try {
    return openedVerdict(ring, claim, verdict)
  } catch (error) {
    return verdict.kind === 'execute' ? givenBack(store, verdict, error) : Promise.reject(error)
  }
}

/**
 * Releases a key that was claimed in vain. Otherwise its lease would expire, and it would count as crashed work. With the longest delay,
 * so that workers get to the others.
 */
async function givenBack(store: KeyStore, { lease, attempts }: Extract<Verdict, { kind: 'execute' }>, error: unknown): Promise<never> {
  await store.keyRelease({ lease, reason: cannotOpen, dueInMs: longestDelayMs(attempts) }).catch(() => {})
  throw error
}

/** The reason stored with a key that was released because its request is unreadable. */
const cannotOpen = 'the stored request could not be opened'

function sealedSteps<Tx>(steps: StepStore<Tx>, ring: KeyRing | undefined): StepStore<Tx> {
  return {
    transaction: (work, limits) => steps.transaction(work, limits),
    failureOf: (error) => steps.failureOf(error),
    troubleOf: (error) => steps.troubleOf(error),
    stepAdvance: (advance, tx, limit) => steps.stepAdvance({ ...advance, jobs: sealedJobs(ring, advance.lease, advance.jobs) }, tx, limit),
    keyFinishWithin: (finish, tx, limit) => steps.keyFinishWithin(ring ? sealedFinish(ring, finish) : finish, tx, limit),
    stepsRead: (lease, limit) => steps.stepsRead(lease, limit),
    // If it cannot be opened, the caller's transaction does not commit, so no release is needed.
    keyClaimWithin: async (claim, tx, limit) => openedVerdict(ring, claim, await steps.keyClaimWithin(sealedClaim(ring, claim), tx, limit)),
    transactionId: (tx) => steps.transactionId(tx),
    savepoint: (tx) => steps.savepoint(tx),
    keyResolve(resolve, limit) {
      const { resolution } = resolve
      if (resolution.as !== 'failed') return steps.keyResolve(resolve, limit)
      const answer = sealedAnswer(ring, placeOf(resolve), resolution.answer)
      return steps.keyResolve({ ...resolve, resolution: { ...resolution, answer } }, limit)
    },
    auditRead: (ref, limit) => steps.auditRead(ref, limit),
    jobsLagMs: (limit) => steps.jobsLagMs(limit),
  }
}

/** A job whose payload cannot be opened is returned as unreadable, so that it does not block the others. */
function openedOutbox(outbox: OutboxStore, ring: KeyRing | undefined): OutboxStore {
  return {
    async jobsTake(take, limit) {
      const taken = await outbox.jobsTake(take, limit)
      return {
        ...taken,
        jobs: taken.jobs.map((job) => (job.payload === null ? job : { ...job, ...openedPayload(ring, job, job.payload) })),
      }
    },
    async jobsRead({ jobs }, limit) {
      const read = await outbox.jobsRead({ jobs }, limit)
      return read.map((found, index) => found && openedPayload(ring, jobs[index] as JobRef, found.payload))
    },
    jobsSettle: (settle, limit) => outbox.jobsSettle(settle, limit),
    jobsDead: (wanted, limit) => outbox.jobsDead(wanted, limit),
    jobsResolve: (wanted, limit) => outbox.jobsResolve(wanted, limit),
  }
}

function openedPayload(ring: KeyRing | undefined, { tenant, id }: JobRef, payload: string): JobPayload {
  try {
    return { payload: openPayload(ring, { tenant, id }, payload) }
  } catch (error) {
    return { payload: '', unreadable: error as OncekeyError }
  }
}

function sealedJobs(ring: KeyRing | undefined, { tenant }: Pick<Place, 'tenant'>, jobs: readonly JobRecord[]): readonly JobRecord[] {
  return ring ? jobs.map((job) => ({ ...job, payload: sealPayload(ring, { tenant, id: job.id }, job.payload) })) : jobs
}

function placeOf(ref: KeyRef): Place {
  return { tenant: ref.tenant, id: keyId(checkKeyRef(ref)) }
}

function sealedFinish<F extends KeyFinish>(ring: KeyRing, finish: F): F {
  const { lease, answer, jobs = [] } = finish
  return { ...finish, answer: sealAnswer(ring, lease, answer), jobs: sealedJobs(ring, lease, jobs) }
}

function sealedAnswer(ring: KeyRing | undefined, { tenant, id }: Place, answer: Answer): Answer {
  return ring ? sealAnswer(ring, { tenant, id }, answer) : answer
}

function sealedClaim(ring: KeyRing | undefined, claim: KeyClaim): KeyClaim {
  return claim.request ? { ...claim, request: sealRequest(ring, () => placeOf(claim), claim.request) } : claim
}

function openedVerdict<V extends Verdict | EnqueueVerdict>(ring: KeyRing | undefined, ref: KeyRef, verdict: V): V {
  switch (verdict.kind) {
    case 'execute':
      return verdict.request ? { ...verdict, request: openRequest(ring, () => placeOf(ref), verdict.request) } : verdict
    case 'replay':
    case 'parked': {
      const answer = openAnswer(ring, () => placeOf(ref), verdict.answer)
      return answer === verdict.answer ? verdict : { ...verdict, answer }
    }
    default:
      return verdict
  }
}

function openedRecord(ring: KeyRing | undefined, ref: KeyRef, record: KeyRecord): KeyRecord {
  const { answer, request } = record
  return {
    ...record,
    answer: answer && openAnswer(ring, () => placeOf(ref), answer),
    request: request && openRequest(ring, () => placeOf(ref), request),
  }
}
