import { type Delivery, type Job, notDelivered } from '../sink.js'

/**
 * Gives work a promise to race with that rejects when `signal` is aborted: most queue clients take no signal. What they were sent may
 * still happen later. One listener serves a whole batch.
 */
export async function untilAborted<T>(signal: AbortSignal, work: (aborted: Promise<never>) => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  let abort = () => {}
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason)
  })
  aborted.catch(() => {})
  signal.addEventListener('abort', abort)
  try {
    return await work(aborted)
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

/** The result of one job: delivered if the queue confirmed it before the abort. */
export async function deliveryOf(sent: Promise<unknown>, aborted: Promise<never>): Promise<Delivery> {
  try {
    await Promise.race([sent, aborted])
    return 'delivered'
  } catch (error) {
    return notDelivered(error)
  }
}

/** Sends each job separately, all concurrently. */
export function each(signal: AbortSignal, jobs: readonly Job[], send: (job: Job) => Promise<unknown>): Promise<readonly Delivery[]> {
  return untilAborted(signal, (aborted) => Promise.all(jobs.map((job) => deliveryOf(send(job), aborted))))
}

/**
 * Sends all jobs at once. If that fails, sends each separately, so that one refused job does not fail the others. Some may be sent twice:
 * only for queues that detect repeated ids.
 */
export function inBulk(
  signal: AbortSignal,
  jobs: readonly Job[],
  send: (jobs: readonly Job[]) => Promise<readonly Delivery[]>,
): Promise<readonly Delivery[]> {
  return untilAborted(signal, (aborted) => {
    async function outcomesOf(sent: readonly Job[]): Promise<readonly Delivery[]> {
      try {
        return await Promise.race([send(sent), aborted])
      } catch (error) {
        if (sent.length === 1 || signal.aborted) return sent.map(() => notDelivered(error))
        return (await Promise.all(sent.map((job) => outcomesOf([job])))).flat()
      }
    }
    return outcomesOf(jobs)
  })
}
