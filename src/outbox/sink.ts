/** A staged job as a receiver gets it. */
export interface Job {
  /** The same in every delivery of this job: what the receiver recognises a repetition by. */
  readonly id: string
  readonly tenant: string
  readonly name: string
  /** What was staged, as JSON made it. */
  readonly payload: unknown
  /** Jobs of the same group are delivered one after the other, in the order in which they were staged. Null: in any order. */
  readonly group: string | null
  /** 1 for the first delivery. */
  readonly attempt: number
  /** When it was staged, in milliseconds since the epoch on the store's clock. */
  readonly stagedAt: number
}

/**
 * What became of one job. `final`: no other attempt can succeed, so it goes to the dead letters at once. An `error` is there: null, with which
 * many libraries say that all went well, is no answer.
 */
export type Delivery =
  | 'delivered'
  | {
      readonly error: NonNullable<unknown>
      readonly final?: boolean /** The receiver's own word on when to come back. */
      readonly retryAfterMs?: number
    }

/**
 * Where jobs go. It is at-least-once: after a crash, a time-out or an answer that was lost, the same job comes again with the same id.
 */
export interface Sink {
  /** For logs and metrics. */
  readonly name: string
  /** How many jobs it takes at once, at the most. Default: as many as the relay has. */
  readonly maxBatch?: number
  /** Says for each job, in its place, what became of it. If it throws, nothing is known of any of them, and all are tried again. */
  deliver(jobs: readonly Job[], options: { readonly signal: AbortSignal }): Promise<readonly Delivery[]>
}

/** Code that is not ours may throw nothing at all. */
export const notDelivered = (error: unknown): Delivery => ({ error: error ?? new Error('The delivery failed, and did not say why.') })
