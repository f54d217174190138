import type { Job, Sink } from '../sink.js'
import { each } from './batches.js'
import { checkChoice, checkClient, chosenFor, defaultName, messageOf, type PerJob, type QueueSinkOptions, textOf } from './message.js'

/** The subset of kafkajs' `Producer` that we need. */
export interface KafkaProducer {
  send(record: {
    topic: string
    acks: number
    messages: { key: string; value: string; headers: Record<string, string> }[]
  }): Promise<readonly { readonly errorCode: number }[]>
}

export interface KafkaSinkOptions extends QueueSinkOptions {
  /** The topic, or a function that chooses it by the job. */
  topic: PerJob<string>
}

/** All in-sync replicas have it. */
const acks = -1

/**
 * Sends jobs to a Kafka topic. The message key is the group (else the id), so that a group stays in one partition; the header `oncekey-id` is
 * the id. Kafka does not detect repetitions: the consumer has to, by that id.
 *
 * @example kafkaSink(kafka.producer(), { topic: 'jobs' })
 */
export function kafkaSink(producer: KafkaProducer, options: KafkaSinkOptions): Sink {
  const { topic, message = messageOf, name = defaultName('kafka', topic) } = options
  checkClient('kafkaSink', 'send', producer, 'a producer of kafkajs')
  checkChoice('kafkaSink', 'topic', topic)

  async function send(job: Job): Promise<void> {
    const messages = [{ key: job.group ?? job.id, value: textOf(job, message), headers: { 'oncekey-id': job.id } }]
    const [acknowledged] = await producer.send({ topic: chosenFor(job, topic), acks, messages })
    if (acknowledged?.errorCode !== 0) throw new Error(`Kafka did not acknowledge the job ${job.id} (error ${acknowledged?.errorCode}).`)
  }

  return {
    name,
    // Separately: a failed batch does not say which messages failed, and resending it would duplicate the others.
    deliver: (jobs, { signal }) => each(signal, jobs, send),
  }
}
