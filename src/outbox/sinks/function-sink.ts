import type { Delivery, Job, Sink } from '../sink.js'

/**
 * Gets one job at a time, which is delivered when this returns. Two return values are failures, like a throw: an object with an `error` that
 * is not null, undefined or false (optionally with `final` and `retryAfterMs`), and one with `ok: false`.
 */
export type JobFunction = (job: Job, options: { readonly signal: AbortSignal }) => unknown

/** A function as a sink. The relay also accepts the plain function. */
export function functionSink(work: JobFunction, { name = work.name || 'function' }: { name?: string } = {}): Sink {
  return {
    name,
    maxBatch: 1,
    async deliver(jobs, options) {
      return Promise.all(jobs.map(async (job) => deliveryOf(await work(job, options))))
    },
  }
}

/** Some libraries return receipts or `{ data, error: null }` on success, and some return failures instead of throwing. */
function deliveryOf(returned: unknown): Delivery {
  if (typeof returned !== 'object' || returned === null) return 'delivered'
  const { error, ok } = returned as { readonly error?: unknown; readonly ok?: unknown }
  // An `error()` method is no error: loggers have one.
  const hasError = error !== undefined && error !== null && error !== false && typeof error !== 'function'
  if (hasError) return returned as Delivery
  return ok === false
    ? { error: new Error('What the function returned has ok: false, as the answer of a fetch that was refused.') }
    : 'delivered'
}
