import { OncekeyError } from '../../../core/errors.js'
import type { AdvanceResult, KeyFinish, KeyRelease } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import { isConnectionFailure, isImpatience } from '../driver-errors.js'
import type { Statements } from '../plans.js'
import type { FencedWriter } from '../queries/fenced-write.js'
import type { Found, WantedKey } from '../queries/key-claim.js'
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
    one(db: Queryable, wanted: WantedKey): Promise<Found | undefined>
    many(db: Statements, wanted: readonly WantedKey[]): Promise<readonly (Found | undefined)[]>
  }
  readonly finish: FencedWriter<KeyFinish>
  readonly release: FencedWriter<KeyRelease>
}

/** More than a statement takes, unless it waits for a lock or the database has trouble. */
const slowMs = 200

/** The verbs of requests, which share statements with those that are under way at the same moment. */
export function batchedVerbs(db: Statements, { claim, finish, release }: Verbs, { maxRows = 256, maxInFlight = 2 }: BatchOptions) {
  for (const [name, value] of Object.entries({ maxRows, maxInFlight })) {
    if (Number.isInteger(value) && value > 0) continue
    throw new OncekeyError('option_invalid', `batch.${name} is ${String(value)}: it is a whole number from 1 on.`)
  }
  const traffic = { statements: 0 }
  // What is no trouble with the way to the database may be one row's fault, or that of a row that somebody has locked.
  const limits = { traffic, maxRows, maxInFlight, slowMs, isOfOne: (error: unknown) => !isConnectionFailure(error) || isImpatience(error) }
  const claims = new Batcher<WantedKey, Found | undefined>({
    ...limits,
    idOf: ({ id }) => id,
    // A duplicate that waited with the first one finds the key as that one left it: it is not its own.
    shared: (found) => found && { ...found, inserted: false },
    one: (wanted) => claim.one(db, wanted),
    many: (wanted) => claim.many(db, wanted),
  })
  const finishes = writes(finish)
  const releases = writes(release)

  return {
    find: (wanted: WantedKey): Promise<Found | undefined> => claims.submit(wanted),
    finish: (params: KeyFinish): Promise<AdvanceResult> => finishes.submit(params),
    release: (params: KeyRelease): Promise<AdvanceResult> => releases.submit(params),
  }

  function writes<Params extends { readonly lease: { readonly id: string } }>(
    writer: FencedWriter<Params>,
  ): Batcher<Params, AdvanceResult> {
    return new Batcher({
      ...limits,
      idOf: ({ lease }) => lease.id,
      one: (params) => writer.one(db, params),
      many: (params) => writer.many(db, params),
    })
  }
}
