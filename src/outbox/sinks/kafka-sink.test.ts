// There is no broker here: this is what the sink asks of a producer, and what it makes of the answers.
import { Kafka, logLevel } from 'kafkajs'
import { expect, test } from 'vitest'
import type { Job } from '../sink.js'
import { type KafkaProducer, type KafkaSinkOptions, kafkaSink } from './kafka-sink.js'

const job = (id: string, parts: Partial<Job> = {}): Job => ({
  ...{ id, tenant: 'acme', name: 'send_receipt', payload: { order: 1 }, group: null, attempt: 2, stagedAt: 5 },
  ...parts,
})

/** A producer that answers as it is told, and keeps what it was asked for. */
function setup(answer: (id: string) => { errorCode: number }[] | Error, options: KafkaSinkOptions = { topic: 'jobs' }) {
  const records: Parameters<KafkaProducer['send']>[0][] = []
  const sink = kafkaSink(
    {
      async send(record) {
        records.push(record)
        const answered = answer(String(record.messages[0]?.headers['oncekey-id']))
        if (answered instanceof Error) throw answered
        return answered
      },
    },
    options,
  )
  return { records, deliver: (jobs: Job[]) => sink.deliver(jobs, { signal: new AbortController().signal }) }
}

test('a job has its group as the key, else its id, its id in a header, and asks for the acknowledgement of all replicas', async () => {
  const { records, deliver } = setup(() => [{ errorCode: 0 }])

  expect(await deliver([job('a'), job('b', { group: 'order-7' })])).toEqual(['delivered', 'delivered'])

  const body = { tenant: 'acme', name: 'send_receipt', payload: { order: 1 }, stagedAt: 5 }
  expect(records.map(({ topic, acks, messages }) => ({ topic, acks, messages }))).toEqual([
    { topic: 'jobs', acks: -1, messages: [{ key: 'a', headers: { 'oncekey-id': 'a' }, value: expect.any(String) }] },
    { topic: 'jobs', acks: -1, messages: [{ key: 'order-7', headers: { 'oncekey-id': 'b' }, value: expect.any(String) }] },
  ])
  expect(records.map(({ messages }) => JSON.parse(messages[0]?.value as string))).toEqual([
    { ...body, id: 'a', group: null },
    { ...body, id: 'b', group: 'order-7' },
  ])
})

test('jobs that fail do so alone: by an error, by an error code, and without any acknowledgement', async () => {
  const refused = new Error('MESSAGE_TOO_LARGE')
  const answers: Record<string, { errorCode: number }[] | Error> = { b: refused, c: [{ errorCode: 7 }], d: [] }
  const { deliver } = setup((id) => answers[id] ?? [{ errorCode: 0 }])

  expect(await deliver(['a', 'b', 'c', 'd', 'e'].map((id) => job(id)))).toEqual([
    'delivered',
    { error: refused },
    { error: expect.objectContaining({ message: 'Kafka did not acknowledge the job c (error 7).' }) },
    { error: expect.objectContaining({ message: 'Kafka did not acknowledge the job d (error undefined).' }) },
    'delivered',
  ])
})

test('the topic and the message are chosen by the job, and a choice that throws fails alone', async () => {
  const { records, deliver } = setup(() => [{ errorCode: 0 }], {
    topic: ({ name }) => `jobs.${name}`,
    message: ({ payload }) => {
      if (payload === null) throw new Error('nothing to say')
      return payload
    },
  })

  const outcomes = await deliver([job('a'), job('b', { payload: null })])

  expect(outcomes).toEqual(['delivered', { error: expect.objectContaining({ message: 'nothing to say' }) }])
  expect(records).toMatchObject([{ topic: 'jobs.send_receipt', messages: [{ value: '{"order":1}' }] }])
})

test('a producer of kafkajs that is not connected delivers nothing', async () => {
  const producer = new Kafka({ brokers: ['127.0.0.1:1'], logLevel: logLevel.NOTHING }).producer()
  const [outcome] = await kafkaSink(producer, { topic: 'jobs' }).deliver([job('a')], { signal: new AbortController().signal })
  expect(outcome).toMatchObject({ error: { message: 'The producer is disconnected' } })
})
