/** A staged job as a receiver gets it. */
export interface Job {
  /** The same in every delivery of this job: by it the receiver detects repetitions. */
  readonly id: string
  readonly tenant: string
  readonly name: string
  /** The staged value, as parsed JSON. */
  readonly payload: unknown
  /** Jobs of one group are delivered in the order in which they were staged. Null: in any order. */
  readonly group: string | null
  /** 1 for the first delivery. */
  readonly attempt: number
  /** When it was staged, in milliseconds since the epoch on the store's clock. */
  readonly stagedAt: number
}

/**
 * The result of one job. `final`: no other attempt can succeed, so it becomes a dead letter at once. `error` must not be null, which many
 * libraries return for success.
 */
export type Delivery =
  | 'delivered'
  | {
      readonly error: NonNullable<unknown>
      readonly final?: boolean /** The receiver's own word on when to come back. */
      readonly retryAfterMs?: number
    }

/**
 * Where jobs go. Delivery is at-least-once: after a crash, a time-out or a lost answer the same job comes again with the same id.
 */
export interface Sink {
  /** For logs and metrics. */
  readonly name: string
  /** The most jobs it takes at once. Default: as many as the relay has. */
  readonly maxBatch?: number
  /** Returns a result for each job, in order. If it throws, all are retried. */
  deliver(jobs: readonly Job[], options: { readonly signal: AbortSignal }): Promise<readonly Delivery[]>
}

/** Foreign code may throw `undefined` or null. */
export const notDelivered = (error: unknown): Delivery => ({ error: error ?? new Error('The delivery failed without an error.') })
