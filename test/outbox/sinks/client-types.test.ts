// The structural types are those of the real packages: this file compiles, or `npm run check` fails.
import { jetstream } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { ChannelModel, ConfirmChannel, RecoveringChannelModel } from 'amqplib'
import type { Queue } from 'bullmq'
import type { Producer } from 'kafkajs'
import type PgBoss from 'pg-boss'
import { expectTypeOf, test } from 'vitest'
import type { Sink } from '../../../src/outbox/sink.js'
import { bullmqSink, kafkaSink, natsSink, pgBossSink, rabbitmqSink } from '../../../src/outbox/sinks/queues.js'

interface Mail {
  to: string
}

test('the clients fit as they are', () => {
  const make = (
    queue: Queue,
    typedQueue: Queue<Mail, void, 'mail'>,
    boss: PgBoss,
    nats: NatsConnection,
    connection: ChannelModel,
    recovering: RecoveringChannelModel,
    channel: ConfirmChannel,
    producer: Producer,
  ) => [
    bullmqSink(queue),
    bullmqSink(typedQueue, { message: (job) => job.payload }),
    pgBossSink(boss, { queue: 'mails' }),
    natsSink(jetstream(nats), { subject: 'jobs' }),
    rabbitmqSink(channel, { exchange: '', routingKey: 'jobs' }),
    rabbitmqSink(() => connection.createConfirmChannel(), { exchange: '', routingKey: 'jobs' }),
    rabbitmqSink(() => recovering.createConfirmChannel(), { exchange: '', routingKey: (job) => job.name }),
    kafkaSink(producer, { topic: 'jobs' }),
  ]
  expectTypeOf(make).returns.toEqualTypeOf<Sink[]>()
})
