import { OncekeyError } from '../core/errors.js'
import type { DeadJob, JobRef, OutboxStore } from '../core/store.js'

/** What an operator does with dead letters. */
export interface DeadLetters {
  /** The oldest dead letters first; `after` is the last one of the previous page. */
  list(options?: { limit?: number; after?: DeadJob }): Promise<readonly DeadJob[]>
  /** Delivers them again, with all attempts. Returns how many there were. */
  retry(jobs: readonly JobRef[]): Promise<number>
  /** Deletes them undelivered; their groups continue. Returns how many there were. */
  discard(jobs: readonly JobRef[]): Promise<number>
}

/** What of an instance is needed. */
interface HasStore {
  readonly internals: { readonly parts: { readonly store: { readonly outbox?: OutboxStore } } }
}

/** @example await deadLetters(once).retry(await deadLetters(once).list()) */
export function deadLetters(once: HasStore): DeadLetters {
  const outbox = outboxOf(once, 'deadLetters')
  return {
    list: ({ limit = 100, after } = {}) => outbox.jobsDead({ limit, after }),
    retry: (jobs) => outbox.jobsResolve({ jobs, as: 'retry' }),
    discard: (jobs) => outbox.jobsResolve({ jobs, as: 'discard' }),
  }
}

export function outboxOf(once: HasStore, name: string): OutboxStore {
  const outbox = once?.internals?.parts.store.outbox
  if (outbox) return outbox
  throw new OncekeyError('outbox_unsupported', `${name}() needs what createOnce() made of a store with an outbox: postgresStore().`)
}
