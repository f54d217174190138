import { randomUUID } from 'node:crypto'
import { Queue, type QueueOptions, Worker } from 'bullmq'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { bullmqSink } from '../../../src/outbox/sinks/queues.js'
import { type RedisServer, redisForTests, startRedis } from '../../support/redis.js'
import { waitUntil } from '../../support/wait-until.js'
import { aJob, deliver, deliveredOf, failureOf, kills, messageFor, someJobs } from './jobs.js'

let shared: Pick<RedisServer, 'url' | 'stop'>

beforeAll(async () => {
  shared = await redisForTests()
})
afterAll(() => shared.stop())

/** A queue of its own, on the shared server or another. */
function setup(options: Partial<QueueOptions> = {}, { url = shared.url, name = `queue-${randomUUID()}` } = {}) {
  const queue = new Queue(name, { connection: { url }, ...options })
  // Tests kill its server on purpose; what was under way reports it.
  queue.on('error', () => {})
  onTestFinished(async () => {
    await queue.obliterate({ force: true }).catch(() => {})
    await queue.close().catch(() => {})
  })
  const ids = async () => (await queue.getJobs()).map(({ id }) => id)
  return { queue, name, sink: bullmqSink(queue), ids }
}

/** Runs the jobs of a queue, and counts. */
function work(name: string): { ran: string[] } {
  const ran: string[] = []
  const worker = new Worker(name, async ({ id }) => void ran.push(id as string), { connection: { url: shared.url } })
  onTestFinished(() => worker.close(true))
  return { ran }
}

test('a job that is delivered again and again is in the queue once, and counts as delivered each time', async () => {
  const { queue, sink } = setup()
  const jobs = someJobs(3)

  expect(await deliver(sink, jobs)).toEqual(['delivered', 'delivered', 'delivered'])
  expect(await deliver(sink, jobs)).toEqual(['delivered', 'delivered', 'delivered'])
  await Promise.all([deliver(sink, jobs), deliver(sink, jobs)])

  const waiting = await queue.getWaiting()
  expect(waiting.map(({ id, name, data }) => ({ id, name, data }))).toEqual(
    jobs.map((job) => ({ id: job.id, name: 'send_receipt', data: messageFor(job) })),
  )
})

test('a job that is done is not run again by a repeated delivery while the queue keeps it', async () => {
  const { name, sink, queue } = setup({ defaultJobOptions: { removeOnComplete: { age: 3_600 } } })
  const { ran } = work(name)
  const [job, next] = [aJob(), aJob()]

  await deliver(sink, [job])
  await waitUntil('it is done', () => queue.getCompletedCount())
  expect(await deliver(sink, [job, next])).toEqual(['delivered', 'delivered'])

  await waitUntil('the next one is done', () => ran.includes(next.id))
  expect(ran).toEqual([job.id, next.id])
})

test('a queue that keeps no finished jobs runs a repeated delivery again', async () => {
  const { name, sink, ids } = setup({ defaultJobOptions: { removeOnComplete: true } })
  const { ran } = work(name)
  const job = aJob()

  await deliver(sink, [job])
  await waitUntil('it is done and gone', async () => ran.length === 1 && (await ids()).length === 0)
  await deliver(sink, [job])

  await waitUntil('it has run again', () => ran.length === 2)
})

test('a job that the queue refuses fails alone', async () => {
  const { sink, ids } = setup({ defaultJobOptions: { sizeLimit: 1_000 } })
  const [small, large, other] = [aJob(), aJob({ payload: 'x'.repeat(2_000) }), aJob()]

  const outcomes = await deliver(sink, [small, large, other])

  expect(failureOf(outcomes[1])).toMatch(/exceeds the limit/)
  expect(deliveredOf([small, large, other], outcomes)).toEqual([small.id, other.id])
  expect((await ids()).sort()).toEqual([small.id, other.id].sort())
})

test('a job that was dropped in favour of another is not called delivered', async () => {
  const { sink, ids } = setup({ defaultJobOptions: { deduplication: { id: 'one at a time' } } as object })
  const [first, second] = [aJob(), aJob()]

  const outcomes = await deliver(sink, [first, second])

  expect(outcomes[0]).toBe('delivered')
  expect(failureOf(outcomes[1])).toMatch(/must not have 'deduplication'/)
  expect(await ids()).toEqual([first.id])
})

test('what was reported as delivered is there after the server was killed, and the rest follows once', {
  timeout: kills.timeout,
}, async () => {
  const server = await startRedis('always')
  onTestFinished(() => server.stop())
  const connection = { url: server.url, retryStrategy: () => null }

  for (let round = 1; round <= kills.rounds; round += 1) {
    const jobs = someJobs(400)
    const batches = Array.from({ length: 20 }, (_, index) => jobs.slice(index * 20, (index + 1) * 20))
    const { sink, name } = setup({ connection })
    let killed: Promise<void> | undefined
    const outcomes = await Promise.all(
      batches.map(async (batch, index) => {
        if (index === 19) {
          await waitUntil('the server is being killed', () => killed !== undefined)
          await killed
        }
        const outcome = await deliver(sink, batch)
        if (index === 5) killed = server.kill()
        return outcome
      }),
    )
    const delivered = deliveredOf(jobs, outcomes.flat())
    expect(delivered.length).toBeGreaterThanOrEqual(20)
    expect(delivered.length).toBeLessThanOrEqual(380)

    await server.start()
    const after = setup({}, { url: server.url, name })
    expect(await after.ids()).toEqual(expect.arrayContaining(delivered))
    expect(new Set(await deliver(after.sink, jobs))).toEqual(new Set(['delivered']))
    expect((await after.ids()).sort()).toEqual(jobs.map(({ id }) => id).sort())
  }
})

test('a sink goes on when its server is back', async () => {
  const server = await startRedis('always')
  onTestFinished(() => server.stop())
  const { sink, ids } = setup({ connection: { url: server.url, retryStrategy: () => 20 } })
  const job = aJob()
  await deliver(sink, [aJob()])

  await server.kill()
  const nobodyWaits = new AbortController()
  const meanwhile = deliver(sink, [job], nobodyWaits.signal)
  nobodyWaits.abort(new Error('that took too long'))
  expect(failureOf((await meanwhile)[0])).toBe('that took too long')

  await server.start()
  expect(await deliver(sink, [job])).toEqual(['delivered'])
  expect(await ids()).toHaveLength(2)
})
