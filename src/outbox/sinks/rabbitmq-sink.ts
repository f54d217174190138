import type { Delivery, Job, Sink } from '../sink.js'
import { deliveryOf, untilAborted } from './batches.js'
import { checkChoice, checkClient, chosenFor, defaultName, messageOf, type PerJob, type QueueSinkOptions, textOf } from './message.js'

/** The subset of amqplib's `ConfirmChannel` that we need. */
export interface AmqpConfirmChannel {
  /** False: its buffer is full, wait for `drain`. */
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: { messageId: string; contentType: string; persistent: boolean; mandatory: boolean },
    confirmed: (error: unknown) => void,
  ): boolean
  // biome-ignore lint/suspicious/noExplicitAny: amqplib types its listeners so.
  on(event: string, listener: (...parameters: any[]) => void): unknown
}

export interface RabbitmqSinkOptions extends QueueSinkOptions {
  /** The exchange. `''` is the default one: the routing key is the name of the queue. */
  exchange: string
  /** The routing key, or a function that chooses it by the job. */
  routingKey: PerJob<string>
}

/**
 * Publishes persistent jobs to a RabbitMQ exchange, with their ids as `messageId`. A job is delivered when the broker confirms it and a queue
 * has taken it: an unroutable message is a failure. RabbitMQ does not detect repetitions: the consumer has to, by that id.
 *
 * Pass a function rather than a channel: a closed channel, as after a restart of the broker, stays closed. The function is called for the
 * first batch, and again after a channel has closed.
 *
 * @example rabbitmqSink(() => connection.createConfirmChannel(), { exchange: '', routingKey: 'mails' })
 */
export function rabbitmqSink(channel: AmqpConfirmChannel | (() => Promise<AmqpConfirmChannel>), options: RabbitmqSinkOptions): Sink {
  const { exchange, routingKey, message = messageOf, name = defaultName('rabbitmq', exchange || routingKey) } = options
  if (typeof channel !== 'function')
    checkClient('rabbitmqSink', 'publish', channel, 'a confirm channel of amqplib, or a function that opens one')
  checkChoice('rabbitmqSink', 'routingKey', routingKey)
  const currentChannel = reopening(typeof channel === 'function' ? channel : async () => channel)

  return {
    name,
    deliver: (jobs, { signal }) =>
      untilAborted(signal, async (aborted) => {
        const open = await Promise.race([currentChannel(), aborted])
        const returned = new Set<string>()
        let hasRoom = true
        const publish = (job: Job) =>
          new Promise<void>((resolve, reject) => {
            const key = chosenFor(job, routingKey)
            const content = Buffer.from(textOf(job, message))
            const properties = { messageId: job.id, contentType: 'application/json', persistent: true, mandatory: true }
            hasRoom = open.channel.publish(exchange, key, content, properties, (error) => {
              if (error) reject(open.closedBy() ?? error)
              // Unroutable messages are returned, then confirmed.
              else if (returned.has(job.id)) reject(unroutable(job, exchange, key))
              else resolve()
            })
          })

        open.batches.add(returned)
        try {
          const outcomes: Promise<Delivery>[] = []
          for (const job of jobs) {
            outcomes.push(deliveryOf(signal.aborted ? aborted : publish(job), aborted))
            if (!hasRoom) await Promise.race([open.room(), aborted]).catch(() => {})
            hasRoom = true
          }
          return await Promise.all(outcomes)
        } finally {
          open.batches.delete(returned)
        }
      }),
  }
}

interface OpenChannel {
  readonly channel: AmqpConfirmChannel
  /** For each batch in progress, the ids of returned messages. */
  readonly batches: Set<Set<string>>
  /** The channel's error. */
  closedBy(): unknown
  /** Resolves on drain or close. */
  room(): Promise<void>
}

function watched(channel: AmqpConfirmChannel): OpenChannel {
  const batches = new Set<Set<string>>()
  let reason: unknown
  let waiting: (() => void)[] = []
  const goOn = () => {
    for (const resolve of waiting) resolve()
    waiting = []
  }
  channel.on('return', ({ properties }: { properties: { messageId?: unknown } }) => {
    for (const returned of batches) returned.add(String(properties.messageId))
  })
  // An unhandled channel error would end the process. Pending confirmations reject anyway.
  channel.on('error', (error: unknown) => {
    reason = error
  })
  channel.on('drain', goOn)
  channel.on('close', goOn)
  return { channel, batches, closedBy: () => reason, room: () => new Promise((resolve) => waiting.push(resolve)) }
}

/** The last opened channel, while it is open. */
function reopening(open: () => Promise<AmqpConfirmChannel>): () => Promise<OpenChannel> {
  let current: Promise<OpenChannel> | undefined
  const forget = () => {
    current = undefined
  }
  const opened = (channel: AmqpConfirmChannel) => {
    channel.on('close', forget)
    return watched(channel)
  }
  return () => {
    current ??= open().then(opened, (error) => {
      forget()
      throw error
    })
    return current
  }
}

function unroutable(job: Job, exchange: string, routingKey: string): Error {
  return new Error(
    `RabbitMQ returned the job ${job.id}: no queue takes messages of the exchange '${exchange}' with the routing key '${routingKey}'. Bind one.`,
  )
}
