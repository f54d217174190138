import { OncekeyError } from '../../../core/errors.js'
import type { KeyRecord } from '../../../core/record.js'
import type { AdvanceResult, KeyClaim, KeyFinish, KeyRelease, Store } from '../../../core/store.js'
import type { Bounded } from '../bounded.js'
import { isConnectionFailure, isImpatience, isLockTimeout } from '../driver-errors.js'
import type { Statements } from '../plans.js'
import type { FencedWriter, LastWrite } from '../queries/fenced-write.js'
import type { Found, WantedKey } from '../queries/key-claim.js'
import type { keyWithdraw, WithdrawnClaim } from '../queries/key-withdraw.js'
import { Batcher } from './batcher.js'

export interface BatchOptions {
  /** The most requests that share a statement. Too low: more statements. Too high: a large one holds up those in it. Default 256. */
  maxRows?: number
  /**
   * The most statements of a kind at the same time; each takes a connection of the pool. Too low: batches wait for each other. Too high:
   * smaller batches. Default 2.
   */
  maxInFlight?: number
}

interface Verbs {
  readonly claim: {
    one(db: Bounded, id: string, claim: KeyClaim): Promise<Found | undefined>
    many(db: Statements, wanted: readonly WantedKey[]): Promise<readonly (Found | undefined)[]>
  }
  readonly finish: FencedWriter<KeyFinish>
  readonly release: FencedWriter<KeyRelease>
}

/** Two batches of a kind are under way at once, each with its copies on the way to the driver. */
const maxBytes = 4 * 1024 * 1024

/** More than a statement takes, unless it waits for a lock or the database has trouble. */
const slowMs = 200

/** The verbs of requests, which share statements with those that are under way at the same moment. */
export function batchedVerbs(db: Statements, { claim, finish, release }: Verbs, { maxRows = 256, maxInFlight = 2 }: BatchOptions) {
  for (const [name, value] of Object.entries({ maxRows, maxInFlight })) {
    if (Number.isInteger(value) && value > 0) continue
    throw new OncekeyError('option_invalid', `batch.${name} is ${String(value)}: it is a whole number from 1 on.`)
  }
  const traffic = { statements: 0 }
  // What is no trouble with the way to the database may be one row's fault, or that of a row that is locked.
  const limits = {
    db,
    traffic,
    maxRows,
    maxBytes,
    maxInFlight,
    slowMs,
    isOfOne: (error: unknown) => !isConnectionFailure(error) || isImpatience(error),
  }
  const claims = new Batcher<WantedKey, Found | undefined>({
    ...limits,
    idOf: ({ id }) => id,
    // A duplicate that waited with the first one finds the key as that one left it: it is not its own.
    // Each gets bytes of its own: one caller may change what it is given.
    shared: (found) => found && { ...found, inserted: false, record: copyOf(found.record) },
    bytesOf: ({ claim: { request } }) => request?.length ?? 0,
    // Another transaction has the key: each of them would wait for it in vain.
    sharesError: isLockTimeout,
    one: (bounded, { id, claim: wanted }) => claim.one(bounded, id, wanted),
    many: (bounded, wanted) => claim.many(bounded, wanted),
  })
  const finishes = writes(finish, ({ answer, steps, jobs }) => answer.body.length + bytesAlong({ steps, jobs }))
  const releases = writes(release, bytesAlong)

  return {
    find: (bounded: Bounded, id: string, wanted: KeyClaim): Promise<Found | undefined> =>
      claims.submit({ id, claim: wanted }, bounded.until),
    finish: (bounded: Bounded, params: KeyFinish): Promise<AdvanceResult> => finishes.submit(params, bounded.until),
    release: (bounded: Bounded, params: KeyRelease): Promise<AdvanceResult> => releases.submit(params, bounded.until),
  }

  function writes<Params extends { readonly lease: { readonly id: string } }>(
    writer: FencedWriter<Params>,
    bytesOf: (params: Params) => number,
  ): Batcher<Params, AdvanceResult> {
    return new Batcher({
      ...limits,
      idOf: ({ lease }) => lease.id,
      bytesOf,
      one: (bounded, params) => writer.one(bounded, params),
      many: (bounded, params) => writer.many(bounded, params),
    })
  }
}

/**
 * Withdrawals share statements also where `batch` is off: they come in thousands when the database is back, and nothing may stand behind them. None of
 * them waits for a lock, so a statement that loses its patience says nothing of one key.
 */
export function batchedWithdrawals(db: Statements, withdraw: ReturnType<typeof keyWithdraw>) {
  return new Batcher<WithdrawnClaim, WithdrawResult>({
    db,
    traffic: { statements: 0 },
    maxRows: 256,
    maxBytes,
    maxInFlight: 2,
    slowMs,
    idOf: ({ owner }) => owner,
    bytesOf: () => 0,
    isOfOne: (error) => !isConnectionFailure(error),
    one: async (bounded, claim) => (await withdraw(bounded, [claim]))[0] as WithdrawResult,
    many: withdraw,
  })
}

type WithdrawResult = Awaited<ReturnType<Store['keyWithdraw']>>

function bytesAlong({ steps = [], jobs = [] }: Pick<LastWrite, 'steps' | 'jobs'>): number {
  return [...steps.map(({ result }) => result?.length ?? 0), ...jobs.map(({ payload }) => payload.length)].reduce(
    (sum, each) => sum + each,
    0,
  )
}

function copyOf(record: KeyRecord): KeyRecord {
  const { answer, request } = record
  return {
    ...record,
    request: request && new Uint8Array(request),
    answer: answer && { ...answer, headers: answer.headers.map(([name, value]) => [name, value]), body: new Uint8Array(answer.body) },
  }
}
