import { randomUUID } from 'node:crypto'
import { type ConfirmChannel, connect, type RecoveringChannelModel } from 'amqplib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rabbitmqSink } from '../../../src/outbox/sinks/queues.js'
import { type RabbitmqServer, startRabbitmq } from '../../support/rabbitmq.js'
import { aJob, deliver, deliveredOf, failureOf, kills, messageFor, someJobs } from './jobs.js'

let server: RabbitmqServer
let connection: RecoveringChannelModel

beforeAll(async () => {
  server = await startRabbitmq()
  connection = await connect(server.url, { recovery: { initialDelay: 20, maxDelay: 100 } })
  connection.on('error', () => {})
}, kills.timeout)
afterAll(async () => {
  await connection.close()
  await server.stop()
})

/** A durable queue of its own. */
async function setup() {
  const queue = `queue-${randomUUID()}`
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue(queue, { durable: true })
  await channel.close()
  return { queue, sink: rabbitmqSink(() => connection.createConfirmChannel(), { exchange: '', routingKey: queue }) }
}

/** All messages of a queue. */
async function drained(queue: string) {
  const channel = await connection.createChannel()
  const messages: { id: string; durable: boolean; body: unknown }[] = []
  for (;;) {
    const message = await channel.get(queue, { noAck: true })
    if (!message) break
    const { messageId, deliveryMode } = message.properties
    messages.push({ id: messageId as string, durable: deliveryMode === 2, body: JSON.parse(message.content.toString()) })
  }
  await channel.close()
  return messages
}

test('a job is delivered when the broker has confirmed it, with its id, and again each time: the consumer has to know it', async () => {
  const { sink, queue } = await setup()
  const jobs = someJobs(3)

  expect(await deliver(sink, jobs)).toEqual(['delivered', 'delivered', 'delivered'])
  expect(await deliver(sink, jobs.slice(0, 1))).toEqual(['delivered'])

  const expected = jobs.map((job) => ({ id: job.id, durable: true, body: messageFor(job) }))
  expect(await drained(queue)).toEqual([...expected, expected[0]])
})

test('a message that no queue takes is a failure, and only that one', async () => {
  const { queue } = await setup()
  const routingKey = ({ name }: { name: string }) => (name === 'lost' ? 'nowhere' : queue)
  const sink = rabbitmqSink(() => connection.createConfirmChannel(), { exchange: '', routingKey })
  const jobs = [aJob(), aJob({ name: 'lost' }), aJob()]

  const outcomes = await deliver(sink, jobs)

  expect(deliveredOf(jobs, outcomes)).toEqual([jobs[0]?.id, jobs[2]?.id])
  expect(failureOf(outcomes[1])).toMatch(/no queue takes messages of the exchange '' with the routing key 'nowhere'/)
  expect((await drained(queue)).map(({ id }) => id)).toEqual([jobs[0]?.id, jobs[2]?.id])
})

test('an exchange that does not exist closes the channel: nothing is delivered, the reason is told, and the sink opens another', async () => {
  const exchange = `exchange-${randomUUID()}`
  const { queue } = await setup()
  const sink = rabbitmqSink(() => connection.createConfirmChannel(), { exchange, routingKey: 'jobs' })
  const jobs = someJobs(3)

  const outcomes = await deliver(sink, jobs)
  expect(outcomes.map(failureOf)).toEqual(Array(3).fill(expect.stringContaining('NOT_FOUND - no exchange')))

  const channel = await connection.createChannel()
  await channel.assertExchange(exchange, 'direct', { durable: true })
  await channel.bindQueue(queue, exchange, 'jobs')
  await channel.close()
  expect(deliveredOf(jobs, await deliver(sink, jobs))).toHaveLength(3)
  expect(await drained(queue)).toHaveLength(3)
})

test('a channel that is closed before it has confirmed leaves the jobs undelivered, and those after it', async () => {
  const { queue } = await setup()
  const channel = await connection.createConfirmChannel()
  let closed: Promise<void> | undefined
  const closing = {
    on: channel.on.bind(channel),
    publish(...parameters: Parameters<ConfirmChannel['publish']>) {
      const hasRoom = channel.publish(...parameters)
      closed ??= channel.close()
      return hasRoom
    },
  }
  const sink = rabbitmqSink(closing, { exchange: '', routingKey: queue })

  expect((await deliver(sink, someJobs(2))).map(failureOf)).toEqual(['channel closed', 'Channel closing'])
  await closed
  expect((await deliver(sink, someJobs(1))).map(failureOf)).toEqual(['Channel closed'])
})

test('more than the buffer of the channel holds waits for room', async () => {
  const { queue } = await setup()
  const channel = await connection.createConfirmChannel({ highWaterMark: 8 })
  let full = false
  let timesFull = 0
  let publishedWhileFull = 0
  channel.on('drain', () => {
    full = false
  })
  const watched = {
    on: channel.on.bind(channel),
    publish(...parameters: Parameters<ConfirmChannel['publish']>) {
      if (full) publishedWhileFull += 1
      full = !channel.publish(...parameters)
      if (full) timesFull += 1
      return !full
    },
  }
  const jobs = someJobs(60)

  const outcomes = await deliver(rabbitmqSink(watched, { exchange: '', routingKey: queue }), jobs)

  expect(deliveredOf(jobs, outcomes)).toHaveLength(60)
  expect(timesFull).toBeGreaterThan(0)
  expect(publishedWhileFull).toBe(0)
  expect((await drained(queue)).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id))
})

/** Whether the broker still knows a queue. */
async function isThere(queue: string): Promise<boolean> {
  const channel = await connection.createChannel()
  // Asking for one that is not there closes the channel.
  channel.on('error', () => {})
  const found = await channel.checkQueue(queue).then(
    () => true,
    () => false,
  )
  if (found) await channel.close()
  return found
}

test('what was reported as delivered is there after the broker was killed, and the rest follows', { timeout: kills.timeout }, async () => {
  const rounds = Math.ceil(kills.rounds / 4)
  let queuesLost = 0
  for (let round = 1; round <= rounds; round += 1) {
    const { sink, queue } = await setup()
    const jobs = someJobs(400)
    const batches = Array.from({ length: 10 }, (_, index) => jobs.slice(index * 40, (index + 1) * 40))
    const nobodyWaits = new AbortController()
    const under = batches.slice(0, 9).map((batch) => deliver(sink, batch, nobodyWaits.signal))
    await under[0]
    await server.kill()
    under.push(deliver(sink, batches[9] ?? [], nobodyWaits.signal))
    nobodyWaits.abort(new Error('that took too long'))
    const outcomes = await Promise.all(
      under.map((outcome, index) => outcome.catch((error: Error) => batches[index]?.map(() => ({ error })) ?? [])),
    )
    const delivered = deliveredOf(jobs, outcomes.flat())
    expect(delivered.length).toBeGreaterThanOrEqual(40)
    expect(delivered.length).toBeLessThanOrEqual(360)

    await server.start()
    if (!(await isThere(queue))) {
      // Killed while it writes its own tables down, as it does soon after its first start, RabbitMQ forgets a durable queue that was just
      // declared, with all that is in it. No client can do anything about that: this round says nothing, and is made up for.
      queuesLost += 1
      expect(queuesLost).toBeLessThanOrEqual(rounds + 5)
      round -= 1
      continue
    }
    const failed = jobs.filter(({ id }) => !delivered.includes(id))
    expect(new Set(await deliver(sink, failed))).toEqual(new Set(['delivered']))
    const there = (await drained(queue)).map(({ id }) => id)
    expect(there).toEqual(expect.arrayContaining(delivered))
    expect(new Set(there)).toEqual(new Set(jobs.map(({ id }) => id)))
  }
})
