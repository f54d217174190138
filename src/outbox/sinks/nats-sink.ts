import type { Sink } from '../sink.js'
import { each } from './batches.js'
import { checkChoice, checkClient, chosenFor, defaultName, messageOf, type PerJob, type QueueSinkOptions, textOf } from './message.js'

/** The subset of a JetStream client of NATS that we need. */
export interface JetStreamPublisher {
  /** Resolves once the stream acknowledges the message, even as a duplicate. */
  publish(subject: string, payload: string, options: { msgID: string }): Promise<unknown>
}

export interface NatsSinkOptions extends QueueSinkOptions {
  /** A subject of a stream, or a function that chooses it by the job. */
  subject: PerJob<string>
}

/**
 * Publishes jobs to a NATS JetStream stream, with their ids as `Nats-Msg-Id`. The stream ignores an id seen within its `duplicate_window`,
 * by default two minutes: make it longer than the delay of a repeated delivery.
 *
 * @example natsSink(jetstream(connection), { subject: (job) => `jobs.${job.name}` })
 */
export function natsSink(jetstream: JetStreamPublisher, options: NatsSinkOptions): Sink {
  const { subject, message = messageOf, name = defaultName('nats', subject) } = options
  checkClient('natsSink', 'publish', jetstream, 'a JetStream client')
  checkChoice('natsSink', 'subject', subject)
  return {
    name,
    deliver: (jobs, { signal }) =>
      each(signal, jobs, async (job) => jetstream.publish(chosenFor(job, subject), textOf(job, message), { msgID: job.id })),
  }
}
