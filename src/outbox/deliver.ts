import type { Clock } from '../core/clock.js'
import { OncekeyError } from '../core/errors.js'
import { type Delivery, type Job, notDelivered, type Sink } from './sink.js'

/**
 * Hands jobs to a sink and says what became of each, whatever the sink does: it may throw, hang, or answer for too few. After `timeoutMs`
 * it is told to stop, and is not waited for any longer.
 */
export function deliver(sink: Sink, jobs: readonly Job[], timeoutMs: number, clock: Clock): Promise<readonly Delivery[]> {
  // Made when it is asked for: many sinks have no use for it, and it costs more than all the rest here.
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

/** One that answers for too few, or for too many, cannot be believed about any of them. */
function deliveriesOf(sink: Sink, jobs: readonly Job[], answered: unknown): readonly Delivery[] {
  if (!Array.isArray(answered)) return jobs.map(() => wrong(sink))
  if (answered.length === jobs.length) return answered.map((each) => deliveryOf(sink, each))
  const error = new TypeError(`The sink ${sink.name} must say for each of ${jobs.length} jobs what became of it.`)
  return jobs.map(() => ({ error }))
}

const timedOut = ({ name }: Sink, timeoutMs: number) =>
  new OncekeyError('delivery_timeout', `The sink ${name} did not answer within ${timeoutMs} ms: the job is tried again.`)

/** What is not clearly a delivery is none. */
function deliveryOf(sink: Sink, answered: unknown): Delivery {
  if (answered === 'delivered') return answered
  if (typeof answered !== 'object' || answered === null) return wrong(sink)
  try {
    // Its fields are read once, here: who uses them need not expect that reading throws.
    const { error, final = false, retryAfterMs } = answered as Exclude<Delivery, string>
    if (error === undefined || error === null) return wrong(sink)
    return retryAfterMs === undefined ? { error, final } : { error, final, retryAfterMs }
  } catch (error) {
    return notDelivered(error)
  }
}

/** It would answer so to every attempt, and may have delivered the job each time: a person has to see to that. */
const wrong = ({ name }: Sink): Delivery => ({
  error: new TypeError(`The sink ${name} must answer with a list that has 'delivered' or { error } for each job, and no error is null.`),
  final: true,
})
