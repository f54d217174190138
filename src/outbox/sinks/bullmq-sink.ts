import type { Job, Sink } from '../sink.js'
import { inBulk } from './batches.js'
import { checkClient, defaultName, messageOf, type QueueSinkOptions } from './message.js'

/** The subset of BullMQ's `Queue` that we need. */
export interface BullmqQueue<Name extends string = string, Data = never> {
  readonly name: string
  addBulk(jobs: { name: Name; data: Data; opts: { jobId: string } }[]): Promise<readonly { readonly id?: string | undefined }[]>
}

export type BullmqSinkOptions = QueueSinkOptions

/**
 * Adds jobs to a BullMQ queue, with their own names and ids. BullMQ ignores an id for as long as it keeps the job: with
 * `removeOnComplete: true` that is until the job is done, and a later repetition runs again. So keep finished jobs for a while:
 * `removeOnComplete: { age }`.
 *
 * @example bullmqSink(new Queue('mails', { connection, defaultJobOptions: { removeOnComplete: { age: 7 * 24 * 3_600 } } }))
 */
export function bullmqSink<Name extends string, Data>(queue: BullmqQueue<Name, Data>, options: BullmqSinkOptions = {}): Sink {
  checkClient('bullmqSink', 'addBulk', queue, 'a Queue of BullMQ')
  const { message = messageOf, name = defaultName('bullmq', queue.name) } = options
  // The queue's types say what its workers take; only the user knows whether a staged job fits.
  const entryOf = (job: Job) => ({ name: job.name as Name, data: message(job) as Data, opts: { jobId: job.id } })

  return {
    name,
    deliver: (jobs, { signal }) =>
      inBulk(signal, jobs, async (sent) => {
        const added = await queue.addBulk(sent.map(entryOf))
        return sent.map((job, index) => {
          const id = added[index]?.id
          return id === job.id ? 'delivered' : { error: notAdded(job, id) }
        })
      }),
  }
}

function notAdded(job: Job, id: string | undefined): Error {
  return new Error(
    `BullMQ kept the job ${id} instead of ${job.id}: a queue that jobs are relayed to must not have 'deduplication' in its defaultJobOptions.`,
  )
}
