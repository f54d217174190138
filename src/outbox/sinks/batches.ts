import { type Delivery, type Job, notDelivered } from '../sink.js'

/**
 * Gives work a promise that fails when `signal` is aborted, to race with: clients of queues mostly have no signal of their own. What they
 * were asked for may still happen later, but nobody waits for it. One listener serves a whole batch.
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

/** What became of one job: delivered if the queue said so before nobody waited any longer. */
export async function deliveryOf(sent: Promise<unknown>, aborted: Promise<never>): Promise<Delivery> {
  try {
    await Promise.race([sent, aborted])
    return 'delivered'
  } catch (error) {
    return notDelivered(error)
  }
}

/** Sends each job by itself, all at the same time. */
export function each(signal: AbortSignal, jobs: readonly Job[], send: (job: Job) => Promise<unknown>): Promise<readonly Delivery[]> {
  return untilAborted(signal, (aborted) => Promise.all(jobs.map((job) => deliveryOf(send(job), aborted))))
}

/**
 * Sends all jobs at once. If that fails, each by itself: one that the queue refuses does not fail its neighbours. So some may be sent
 * twice: only for queues that recognise them by their ids.
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
