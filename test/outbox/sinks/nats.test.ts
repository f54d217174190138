import { randomUUID } from 'node:crypto'
import { type JetStreamClient, jetstream, jetstreamManager, type StreamConfig } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { natsSink } from '../../../src/outbox/sinks/queues.js'
import { type NatsServer, startNats } from '../../support/nats.js'
import { waitUntil } from '../../support/wait-until.js'
import { aJob, deliver, deliveredOf, failureOf, kills, messageFor, someJobs } from './jobs.js'

let server: NatsServer
let connection: NatsConnection

beforeAll(async () => {
  server = await startNats()
  connection = await connect({ port: server.port, maxReconnectAttempts: -1, reconnectTimeWait: 20 })
})
afterAll(async () => {
  await connection.close()
  await server.stop()
})

/** A stream of its own, and what is in it. */
async function setup(config: Partial<StreamConfig> = {}) {
  const name = `stream-${randomUUID()}`
  const manager = await jetstreamManager(connection)
  await manager.streams.add({ name, subjects: [`${name}.*`], ...config })
  const client = jetstream(connection)
  return {
    client,
    subject: `${name}.jobs`,
    sink: natsSink(client, { subject: `${name}.jobs` }),
    async messages(): Promise<{ id: string; subject: string }[]> {
      const { state } = await manager.streams.info(name)
      const numbers = Array.from({ length: state.last_seq }, (_, index) => index + 1)
      const stored = await Promise.all(numbers.map((seq) => manager.streams.getMessage(name, { seq })))
      return stored.map((message) => ({ ...message?.json<{ id: string }>(), subject: message?.subject }) as { id: string; subject: string })
    },
  }
}

test('a job that is delivered again and again is in the stream once, and counts as delivered each time', async () => {
  const { sink, subject, messages } = await setup()
  const jobs = someJobs(3)

  expect(await deliver(sink, jobs)).toEqual(['delivered', 'delivered', 'delivered'])
  expect(await deliver(sink, jobs)).toEqual(['delivered', 'delivered', 'delivered'])
  await Promise.all([deliver(sink, jobs), deliver(sink, jobs)])

  expect(await messages()).toEqual(jobs.map((job) => ({ ...messageFor(job), subject })))
})

test('the stream forgets an id after its duplicate window, and takes the job again', async () => {
  const { sink, messages } = await setup({ duplicate_window: 100_000_000 })
  const job = aJob()

  await waitUntil('it is there twice', async () => {
    expect(await deliver(sink, [job])).toEqual(['delivered'])
    return (await messages()).length === 2
  })
})

test('the subject and the message are chosen by the job', async () => {
  const { client, subject, messages } = await setup()
  const sink = natsSink(client, {
    subject: (job) => subject.replace('jobs', job.name),
    message: ({ id, payload }) => ({ id, payload }),
  })
  const job = aJob({ name: 'send_invoice' })

  expect(await deliver(sink, [job])).toEqual(['delivered'])
  expect(await messages()).toEqual([{ id: job.id, payload: job.payload, subject: subject.replace('jobs', 'send_invoice') }])
})

test('a subject that no stream takes is a failure', async () => {
  const [outcome] = await deliver(natsSink(jetstream(connection), { subject: 'nobody.listens' }), [aJob()])
  expect(failureOf(outcome)).toMatch(/jetstream is not enabled|no responders/)
})

test('a message that is too large fails alone', async () => {
  const { sink, messages } = await setup()
  const [small, large, other] = [aJob(), aJob({ payload: 'x'.repeat(2_000_000) }), aJob()]

  const outcomes = await deliver(sink, [small, large, other])

  expect(failureOf(outcomes[1])).toMatch(/max_payload/i)
  expect(deliveredOf([small, large, other], outcomes)).toEqual([small.id, other.id])
  expect((await messages()).map(({ id }) => id)).toEqual([small.id, other.id])
})

test('what was reported as delivered is there after the server was killed, and the rest follows once', {
  timeout: kills.timeout,
}, async () => {
  for (let round = 1; round <= kills.rounds; round += 1) {
    const { client, subject, sink, messages } = await setup()
    const jobs = someJobs(400)
    const halves = [jobs.slice(0, 200), jobs.slice(200)] as const
    const nobodyWaits = new AbortController()
    let killed: Promise<void> | undefined
    let acknowledged = 0
    const publisher: Pick<JetStreamClient, 'publish'> = {
      async publish(...parameters) {
        const answer = await client.publish(...parameters)
        acknowledged += 1
        if (acknowledged === 50) killed = server.kill()
        return answer
      },
    }

    const first = deliver(natsSink(publisher, { subject }), halves[0], nobodyWaits.signal)
    await waitUntil('the server is being killed', () => killed !== undefined)
    await killed
    const second = deliver(sink, halves[1], nobodyWaits.signal)
    nobodyWaits.abort(new Error('the server is gone'))
    const outcomes = [...(await first), ...(await second)]
    const delivered = deliveredOf(jobs, outcomes)
    expect(delivered.length).toBeGreaterThanOrEqual(50)
    expect(delivered.length).toBeLessThanOrEqual(200)

    await server.start()
    await waitUntil('the client is back', () => connection.request('$JS.API.INFO', '', { timeout: 100 }).then(Boolean, () => false))
    expect((await messages()).map(({ id }) => id)).toEqual(expect.arrayContaining(delivered))

    // All of them once more: what the stream has it still knows.
    expect(new Set(await deliver(sink, jobs))).toEqual(new Set(['delivered']))
    expect((await messages()).map(({ id }) => id).sort()).toEqual(jobs.map(({ id }) => id).sort())
  }
})
