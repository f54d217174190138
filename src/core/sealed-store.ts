import type { Answer } from './answer.js'
import type { OncekeyError } from './errors.js'
import { checkKeyRef, type KeyRef, keyId } from './key.js'
import { type EncryptionOptions, type KeyRing, keyRing } from './key-ring.js'
import type { KeyRecord } from './record.js'
import { longestDelayMs } from './retry-delay.js'
import { openAnswer, openPayload, openRequest, type Place, sealAnswer, sealPayload, sealRequest } from './sealing.js'
import type { EnqueueVerdict, JobRecord, KeyClaim, KeyFinish, KeyStore, OutboxStore, StepStore, Store, TakenJob, Verdict } from './store.js'

/**
 * The same store, in which answers, requests and payloads of jobs are encrypted: what it is given is sealed before it is stored, what it says is opened.
 * Without `encryption` nothing is sealed, and what was sealed is refused, so that nobody is ever sent ciphertext.
 *
 * `createOnce` does this to its store. It is public for those who read a store themselves.
 */
export function sealedStore<Tx>(store: Store<Tx>, encryption?: EncryptionOptions): Store<Tx> {
  const ring = encryption === undefined ? undefined : keyRing(encryption)
  const { steps, upkeep, outbox, turns } = store
  /** An async function only for claims with something to seal: most have nothing. */
  const claimSealed = async (claim: KeyClaim) => store.keyClaim(sealedClaim(ring, claim))

  return {
    get durability() {
      return store.durability
    },

    keyClaim: (claim) =>
      (claim.request ? claimSealed(claim) : store.keyClaim(claim)).then((verdict) => openedClaim(store, ring, claim, verdict)),
    keyEnqueue: async (claim) => openedVerdict(ring, claim, await store.keyEnqueue(sealedClaim(ring, claim))),
    keyHeartbeat: (heartbeat) => store.keyHeartbeat(heartbeat),
    keyFinish: (finish) => store.keyFinish(ring ? sealedFinish(ring, finish) : finish),
    keyRelease: (release) => store.keyRelease(release),
    keyPark: (park) => store.keyPark({ ...park, answer: sealedAnswer(ring, park.lease, park.answer) }),
    async keyPeek(claim) {
      const verdict = await store.keyPeek(sealedClaim(ring, claim))
      return verdict && openedVerdict(ring, claim, verdict)
    },
    async keyRead(ref) {
      const record = await store.keyRead(ref)
      return record && openedRecord(ring, ref, record)
    },
    async keyReadById(wanted) {
      const seen = await store.keyReadById(wanted)
      return seen && { ...seen, record: openedRecord(ring, seen.record, seen.record) }
    },
    keyReap: (reap) => store.keyReap(reap),

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
 * The key was taken for nothing. Left alone, its lease would run out, and it would count as work that crashed. Due at once, it would keep
 * workers from all others.
 */
async function givenBack(store: KeyStore, { lease, attempts }: Extract<Verdict, { kind: 'execute' }>, error: unknown): Promise<never> {
  await store.keyRelease({ lease, reason: cannotOpen, dueInMs: longestDelayMs(attempts) }).catch(() => {})
  throw error
}

/** Noted with a key that was given back because the request it should go on with is unreadable. */
const cannotOpen = 'the stored request could not be opened'

function sealedSteps<Tx>(steps: StepStore<Tx>, ring: KeyRing | undefined): StepStore<Tx> {
  return {
    transaction: (work) => steps.transaction(work),
    failureOf: (error) => steps.failureOf(error),
    troubleOf: (error) => steps.troubleOf(error),
    stepAdvance: (advance, tx) => steps.stepAdvance({ ...advance, jobs: sealedJobs(ring, advance.lease, advance.jobs) }, tx),
    keyFinishWithin: (finish, tx) => steps.keyFinishWithin(ring ? sealedFinish(ring, finish) : finish, tx),
    stepsRead: (lease) => steps.stepsRead(lease),
    // If it cannot be opened, the caller's transaction does not commit: nothing has to be given back.
    keyClaimWithin: async (claim, tx) => openedVerdict(ring, claim, await steps.keyClaimWithin(sealedClaim(ring, claim), tx)),
    savepoint: (tx) => steps.savepoint(tx),
    keyResolve(resolve) {
      const { resolution } = resolve
      if (resolution.as !== 'failed') return steps.keyResolve(resolve)
      const answer = sealedAnswer(ring, placeOf(resolve), resolution.answer)
      return steps.keyResolve({ ...resolve, resolution: { ...resolution, answer } })
    },
    auditRead: (ref) => steps.auditRead(ref),
    jobsLagMs: () => steps.jobsLagMs(),
  }
}

/** A job whose payload cannot be opened is taken all the same, and says so: it must not keep the others from being delivered. */
function openedOutbox(outbox: OutboxStore, ring: KeyRing | undefined): OutboxStore {
  return {
    async jobsTake(take) {
      const taken = await outbox.jobsTake(take)
      return { ...taken, jobs: taken.jobs.map((job) => openedJob(ring, job)) }
    },
    jobsSettle: (settle) => outbox.jobsSettle(settle),
    jobsDead: (wanted) => outbox.jobsDead(wanted),
    jobsResolve: (wanted) => outbox.jobsResolve(wanted),
  }
}

function openedJob(ring: KeyRing | undefined, job: TakenJob): TakenJob {
  try {
    return { ...job, payload: openPayload(ring, { tenant: job.tenant, id: job.id }, job.payload) }
  } catch (error) {
    return { ...job, payload: '', unreadable: error as OncekeyError }
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
