import { expect, test } from 'vitest'
import { bullmqSink, kafkaSink, natsSink, pgBossSink, rabbitmqSink } from './queues.js'

const client = {
  name: 'mails',
  addBulk: async () => [],
  insert: async () => [],
  getJobById: async () => null,
  publish: () => true,
  on() {},
}
const nats = { publish: async () => ({}) }
const kafka = { send: async () => [] }
const nothing = {} as never

test('a sink without a client, or without a queue to go to, is refused at once', () => {
  const refused = [
    () => bullmqSink(nothing),
    () => pgBossSink(nothing, { queue: 'mails' }),
    () => natsSink(nothing, { subject: 'mails' }),
    () => rabbitmqSink(nothing, { exchange: '', routingKey: 'mails' }),
    () => kafkaSink(nothing, { topic: 'mails' }),
    () => pgBossSink(client, nothing),
    () => natsSink(nats, { subject: '' }),
    () => rabbitmqSink(client, { exchange: '', routingKey: nothing }),
    () => kafkaSink(kafka, { topic: 7 as never }),
  ]
  for (const make of refused) expect(make).toThrow(expect.objectContaining({ code: 'option_invalid' }))
})

test('sinks are called by their queues, unless you say otherwise', () => {
  const byJob = () => 'chosen'
  expect([
    bullmqSink(client).name,
    pgBossSink(client, { queue: 'mails' }).name,
    natsSink(nats, { subject: 'mails' }).name,
    rabbitmqSink(client, { exchange: '', routingKey: 'mails' }).name,
    rabbitmqSink(client, { exchange: 'shop', routingKey: byJob }).name,
    kafkaSink(kafka, { topic: byJob }).name,
    kafkaSink(kafka, { topic: 'mails', name: 'events' }).name,
  ]).toEqual(['bullmq:mails', 'pg-boss:mails', 'nats:mails', 'rabbitmq:mails', 'rabbitmq:shop', 'kafka', 'events'])
})
