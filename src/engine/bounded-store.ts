import type { Clock } from '../core/clock.js'
import { storeTimeout } from '../core/errors.js'
import type { Limit, OutboxStore, StepStore, Store, TurnStore, UpkeepStore } from '../core/store.js'

/**
 * For calls without a limit: background work and tools. Longer than any of their statements takes in a healthy database; short enough that
 * a worker recovers from a silent connection within half a minute.
 */
const unlessNamed: Limit = { timeoutMs: 15_000 }

/** The same store with a time limit on every call: the caller's, else the default. */
export function boundedStore<Tx>(store: Store<Tx>, clock: Clock): Store<Tx> {
  const { steps, upkeep, outbox, turns } = store

  return {
    get durability() {
      return store.durability
    },
    // The engine sets these limits and enforces them itself.
    keyClaim: (claim, limit) => store.keyClaim(claim, limit),
    keyFinish: (finish, limit) => store.keyFinish(finish, limit),
    keyEnqueue: (claim, limit) => inTime(limit, (until) => store.keyEnqueue(claim, until)),
    keyWithdraw: (claim, limit) => inTime(limit, (until) => store.keyWithdraw(claim, until), true),
    keyHeartbeat: (heartbeat, limit) => inTime(limit, (until) => store.keyHeartbeat(heartbeat, until)),
    keyRelease: (release, limit) => inTime(limit, (until) => store.keyRelease(release, until)),
    keyPark: (park, limit) => inTime(limit, (until) => store.keyPark(park, until)),
    keyPeek: (claim, limit) => inTime(limit, (until) => store.keyPeek(claim, until)),
    keyRead: (ref, limit, wanted) => inTime(limit, (until) => store.keyRead(ref, until, wanted)),
    keyReadById: (ref, limit, wanted) => inTime(limit, (until) => store.keyReadById(ref, until, wanted)),
    keyReap: (reap, limit) => inTime(limit, (until) => store.keyReap(reap, until)),

    ...(upkeep ? { upkeep: boundedUpkeep(upkeep) } : {}),
    ...(outbox ? { outbox: boundedOutbox(outbox) } : {}),
    ...(turns ? { turns: boundedTurns(turns) } : {}),
    ...(steps ? { steps: boundedSteps(steps) } : {}),
  }

  function boundedUpkeep(upkeep: UpkeepStore): UpkeepStore {
    return {
      keysSweep: (sweep, limit) => inTime(limit, (until) => upkeep.keysSweep(sweep, until)),
      keysWaiting: (wanted, limit) => inTime(limit, (until) => upkeep.keysWaiting(wanted, until)),
      keysTimeOut: (wanted, limit) => inTime(limit, (until) => upkeep.keysTimeOut(wanted, until)),
    }
  }

  function boundedOutbox(outbox: OutboxStore): OutboxStore {
    return {
      jobsTake: (take, limit) => inTime(limit, (until) => outbox.jobsTake(take, until)),
      jobsRead: (wanted, limit) => inTime(limit, (until) => outbox.jobsRead(wanted, until)),
      jobsSettle: (settle, limit) => inTime(limit, (until) => outbox.jobsSettle(settle, until)),
      jobsDead: (wanted, limit) => inTime(limit, (until) => outbox.jobsDead(wanted, until)),
      jobsResolve: (wanted, limit) => inTime(limit, (until) => outbox.jobsResolve(wanted, until)),
    }
  }

  function boundedTurns(turns: TurnStore): TurnStore {
    return {
      turnTake: (take, limit) => inTime(limit, (until) => turns.turnTake(take, until)),
      turnKeep: (turn, limit) => inTime(limit, (until) => turns.turnKeep(turn, until)),
      turnEnd: (turn, limit) => inTime(limit, (until) => turns.turnEnd(turn, until)),
    }
  }

  /** Calls inside a transaction end with it. */
  function boundedSteps(steps: StepStore<Tx>): StepStore<Tx> {
    return {
      transaction: (work, limits) => steps.transaction(work, limits),
      failureOf: (error) => steps.failureOf(error),
      troubleOf: (error) => steps.troubleOf(error),
      stepAdvance: (advance, tx, limit) => inTime(limit, (until) => steps.stepAdvance(advance, tx, until)),
      keyFinishWithin: (finish, tx, limit) => inTime(limit, (until) => steps.keyFinishWithin(finish, tx, until), true),
      keyClaimWithin: (claim, tx, limit) => inTime(limit, (until) => steps.keyClaimWithin(claim, tx, until), true),
      transactionId: (tx) => steps.transactionId(tx),
      savepoint: (tx) => steps.savepoint(tx),
      stepsRead: (lease, limit) => inTime(limit, (until) => steps.stepsRead(lease, until)),
      keyResolve: (resolve, limit) => inTime(limit, (until) => steps.keyResolve(resolve, until)),
      auditRead: (ref, limit) => inTime(limit, (until) => steps.auditRead(ref, until)),
      jobsLagMs: (limit) => inTime(limit, (until) => steps.jobsLagMs(until)),
    }
  }

  /** `always`: enforce a limit that the caller names but does not enforce. */
  function inTime<T>(named: Limit | undefined, call: (limit: Limit) => Promise<T>, always = false): Promise<T> {
    if (named && !always) return call(named)
    const limit = named ?? unlessNamed
    return new Promise((resolve, reject) => {
      const cancel = clock.schedule(() => reject(storeTimeout()), limit.timeoutMs, { background: true })
      call(limit).finally(cancel).then(resolve, reject)
    })
  }
}
