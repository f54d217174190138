import { OncekeyError } from '../../core/errors.js'
import type { Job } from '../sink.js'

/** What a queue gets by default. Nothing in it differs between deliveries. */
export type JobMessage = Omit<Job, 'attempt'>

export interface QueueSinkOptions<Message = unknown> {
  /**
   * What your consumers get, as a JSON value. `(job) => job.payload` suits existing consumers. It must be the same in every delivery of a
   * job: the queue may keep any of them. Default: `{ id, tenant, name, payload, group, stagedAt }`.
   */
  message?: (job: Job) => Message
  /** For logs and metrics. Default: the kind of queue and its name, such as `nats:jobs`. */
  name?: string
}

export function messageOf({ id, tenant, name, payload, group, stagedAt }: Job): JobMessage {
  return { id, tenant, name, payload, group, stagedAt }
}

/** A message as text, for queues that take bytes. */
export function textOf(job: Job, message: (job: Job) => unknown): string {
  return JSON.stringify(message(job) ?? null)
}

/** One for all jobs, or chosen per job. */
export type PerJob<T> = T | ((job: Job) => T)

export function chosenFor(job: Job, choice: PerJob<string>): string {
  return typeof choice === 'string' ? choice : choice(job)
}

/** By its queue, where that is the same for all jobs. */
export function defaultName(kind: string, queue: PerJob<string>): string {
  return typeof queue === 'string' ? `${kind}:${queue}` : kind
}

export function checkClient(sink: string, method: string, client: unknown, what: string): void {
  if (typeof (client as Record<string, unknown> | undefined)?.[method] === 'function') return
  throw new OncekeyError('option_invalid', `${sink}() needs ${what}, which has ${method}().`)
}

export function checkChoice(sink: string, option: string, choice: unknown): void {
  if (typeof choice === 'function' || (typeof choice === 'string' && choice !== '')) return
  throw new OncekeyError('option_invalid', `${sink}() needs ${option}: a name, or a function that chooses it by the job.`)
}
