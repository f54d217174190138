import type { Clock } from '../core/clock.js'
import { OncekeyError } from '../core/errors.js'
import { type Delivery, type Job, notDelivered, type Sink } from './sink.js'

/**
 * Passes jobs to a sink and returns the result of each, even if the sink throws, hangs or returns too few. After `timeoutMs` its signal
 * is aborted and it is no longer waited for.
 */
export function deliver(sink: Sink, jobs: readonly Job[], timeoutMs: number, clock: Clock): Promise<readonly Delivery[]> {
  // Built lazily: many sinks never use it, and it costs more than the rest of this function.
  let controller: AbortController | undefined
  let reason: OncekeyError | undefined
  const options = {
    get signal() {
      controller ??= new AbortController()
      if (reason) controller.abort(reason)
      return controller.signal
    },
  }
  // Nothing is known of any of them.
  const failed = (error: unknown) => jobs.map(() => notDelivered(error))

  return new Promise((resolve) => {
    const cancel = clock.schedule(
      () => {
        reason = timedOut(sink, timeoutMs)
        controller?.abort(reason)
        resolve(failed(reason))
      },
      timeoutMs,
      { background: true },
    )
    const end = (deliveries: readonly Delivery[]) => {
      cancel()
      resolve(deliveries)
    }
    try {
      sink
        .deliver(jobs, options)
        .then((answered: unknown) => deliveriesOf(sink, jobs, answered))
        .then(end, (error: unknown) => end(failed(error)))
    } catch (error) {
      end(failed(error))
    }
  })
}

/** A sink that returns the wrong number of results cannot be trusted about any of them. */
function deliveriesOf(sink: Sink, jobs: readonly Job[], answered: unknown): readonly Delivery[] {
  if (!Array.isArray(answered)) return jobs.map(() => wrong(sink))
  if (answered.length === jobs.length) return answered.map((each) => deliveryOf(sink, each))
  const error = new TypeError(`The sink ${sink.name} must return a result for each of ${jobs.length} jobs.`)
  return jobs.map(() => ({ error }))
}

const timedOut = ({ name }: Sink, timeoutMs: number) =>
  new OncekeyError('delivery_timeout', `The sink ${name} did not answer within ${timeoutMs} ms: the job is tried again.`)

/** All but a clear delivery fails. */
function deliveryOf(sink: Sink, answered: unknown): Delivery {
  if (answered === 'delivered') return answered
  if (typeof answered !== 'object' || answered === null) return wrong(sink)
  try {
    // Fields are read once, here, because getters may throw.
    const { error, final = false, retryAfterMs } = answered as Exclude<Delivery, string>
    if (error === undefined || error === null) return wrong(sink)
    return retryAfterMs === undefined ? { error, final } : { error, final, retryAfterMs }
  } catch (error) {
    return notDelivered(error)
  }
}

/** Final: every attempt would end like this, perhaps after a delivery. An operator has to look. */
const wrong = ({ name }: Sink): Delivery => ({
  error: new TypeError(`The sink ${name} must return an array with 'delivered' or { error } for each job, and error must not be null.`),
  final: true,
})
