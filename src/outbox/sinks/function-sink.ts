import type { Delivery, Job, Sink } from '../sink.js'

/**
 * Gets one job at a time. It is delivered when this returns, whatever it returns, with two exceptions: an object with an `error` that is not
 * null, undefined or false (it may have `final` and `retryAfterMs` as well), and one with `ok: false`. Like what it throws, they are failures.
 */
export type JobFunction = (job: Job, options: { readonly signal: AbortSignal }) => unknown

/** A function as a sink. Where a sink is wanted, the plain function will do. */
export function functionSink(work: JobFunction, { name = work.name || 'function' }: { name?: string } = {}): Sink {
  return {
    name,
    maxBatch: 1,
    async deliver(jobs, options) {
      return Promise.all(jobs.map(async (job) => deliveryOf(await work(job, options))))
    },
  }
}

/** Libraries return receipts, or `{ data, error: null }`, when all went well, and some return their failures instead of throwing them. */
function deliveryOf(returned: unknown): Delivery {
  if (typeof returned !== 'object' || returned === null) return 'delivered'
  const { error, ok } = returned as { readonly error?: unknown; readonly ok?: unknown }
  // A method of that name is no error: loggers and the like have one.
  const hasError = error !== undefined && error !== null && error !== false && typeof error !== 'function'
  if (hasError) return returned as Delivery
  return ok === false
    ? { error: new Error('What the function returned has ok: false, as the answer of a fetch that was refused.') }
    : 'delivered'
}
