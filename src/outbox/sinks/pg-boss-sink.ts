import type { Delivery, Job, Sink } from '../sink.js'
import { inBulk } from './batches.js'
import { checkChoice, checkClient, chosenFor, defaultName, messageOf, type PerJob, type QueueSinkOptions } from './message.js'

/** The subset of `PgBoss` that we need. */
export interface PgBossClient {
  insert(jobs: { id: string; name: string; data: object }[]): Promise<unknown>
  getJobById(queue: string, id: string, options: { includeArchive: boolean }): Promise<unknown>
}

export interface PgBossSinkOptions extends QueueSinkOptions<object> {
  /** The name of the queue, or a function that chooses it by the job. pg-boss must have it: `createQueue()`. */
  queue: PerJob<string>
}

/**
 * Inserts jobs into a pg-boss queue, with their own ids. pg-boss ignores an id while the job is in its table: by default until 12 hours
 * after its end.
 *
 * @example pgBossSink(boss, { queue: 'mails' })
 */
export function pgBossSink(boss: PgBossClient, options: PgBossSinkOptions): Sink {
  const { queue, message = messageOf, name = defaultName('pg-boss', queue) } = options
  checkClient('pgBossSink', 'insert', boss, 'a PgBoss')
  checkChoice('pgBossSink', 'queue', queue)

  // pg-boss silently skips jobs: one that it has, but also one that it can never take.
  async function lookFor(job: Job): Promise<Delivery> {
    const chosen = chosenFor(job, queue)
    const found = await boss.getJobById(chosen, job.id, { includeArchive: true })
    return found ? 'delivered' : { error: notTaken(job, chosen) }
  }

  return {
    name,
    deliver: (jobs, { signal }) =>
      inBulk(signal, jobs, async (sent) => {
        await boss.insert(sent.map((job) => ({ id: job.id, name: chosenFor(job, queue), data: message(job) })))
        return Promise.all(sent.map(lookFor))
      }),
  }
}

function notTaken(job: Job, queue: string): Error {
  return new Error(
    `pg-boss did not take the job ${job.id}: either it has no queue '${queue}' (createQueue() makes it), or the queue's policy has no room for another job.`,
  )
}
