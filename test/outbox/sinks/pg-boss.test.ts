import pg from 'pg'
import PgBoss from 'pg-boss'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { pgBossSink } from '../../../src/outbox/sinks/queues.js'
import { useDatabase } from '../../support/postgres/database.js'
import { startProxy } from '../../support/postgres/proxy.js'
import { startPostgres } from '../../support/postgres/server.js'
import { waitUntil } from '../../support/wait-until.js'
import { aJob, deliver, deliveredOf, failureOf, kills, messageFor, someJobs } from './jobs.js'

const database = useDatabase({ migrated: false })
let boss: PgBoss

beforeAll(async () => {
  boss = await started(database.url)
})
afterAll(() => stopped(boss))

/** No background work of its own: what these tests need they ask for. */
async function started(url: string, options: PgBoss.ConstructorOptions = {}): Promise<PgBoss> {
  const started = new PgBoss({ connectionString: url, supervise: false, schedule: false, ...options })
  started.on('error', () => {})
  return started.start()
}
const stopped = (boss: PgBoss) => boss.stop({ graceful: false, wait: true }).catch(() => {})

let queues = 0
async function setup({ policy = 'standard' as PgBoss.QueuePolicy, on = boss } = {}) {
  queues += 1
  const queue = `queue-${queues}`
  await on.createQueue(queue, { name: queue, policy })
  const jobs = async () => {
    const { rows } = await on.getDb().executeSql('select id, data from pgboss.job where name = $1', [queue])
    return rows as { id: string; data: object }[]
  }
  const ids = async () => (await jobs()).map(({ id }) => id).sort()
  return { queue, sink: pgBossSink(on, { queue }), jobs, ids }
}
const sortedIds = (jobs: readonly { id: string }[]) => jobs.map(({ id }) => id).sort()

test('a job that is delivered again and again is in the queue once, and counts as delivered each time', async () => {
  const { sink, jobs } = await setup()
  const staged = someJobs(3)

  expect(await deliver(sink, staged)).toEqual(['delivered', 'delivered', 'delivered'])
  expect(await deliver(sink, [...staged, aJob({ id: staged[0]?.id as string })])).toEqual(Array(4).fill('delivered'))
  await Promise.all([deliver(sink, staged), deliver(sink, staged)])

  const inQueue = new Map((await jobs()).map(({ id, data }) => [id, data]))
  expect(inQueue).toEqual(new Map(staged.map((job) => [job.id, messageFor(job)])))
})

test('a job that is done stays known', async () => {
  const { sink, queue, ids } = await setup()
  const job = aJob()
  await deliver(sink, [job])
  const [fetched] = await boss.fetch(queue)
  await boss.complete(queue, fetched?.id as string)

  expect(await deliver(sink, [job])).toEqual(['delivered'])

  expect(await ids()).toEqual([job.id])
  expect(await boss.fetch(queue)).toEqual([])
})

test('a job that pg-boss has put into its archive is taken again', async () => {
  const archiving = await started(database.url, { archiveCompletedAfterSeconds: 1 })
  onTestFinished(() => stopped(archiving))
  const { sink, queue, ids } = await setup({ on: archiving })
  const job = aJob()
  await deliver(sink, [job])
  const [fetched] = await archiving.fetch(queue)
  await archiving.complete(queue, fetched?.id as string)
  await waitUntil('it is archived', async () => {
    await archiving.archive()
    return (await ids()).length === 0
  })

  expect(await deliver(sink, [job])).toEqual(['delivered'])
  expect(await ids()).toEqual([job.id])
})

test('a queue that does not exist is a failure, though pg-boss says nothing', async () => {
  const [outcome] = await deliver(pgBossSink(boss, { queue: 'nowhere' }), [aJob()])
  expect(failureOf(outcome)).toMatch(/no queue 'nowhere'/)
})

test('a job that the policy of the queue drops is not called delivered', async () => {
  const { sink, ids } = await setup({ policy: 'short' })
  const first = aJob()
  await deliver(sink, [first])

  expect(failureOf((await deliver(sink, [aJob()]))[0])).toMatch(/policy has no room/)
  expect(await deliver(sink, [first])).toEqual(['delivered'])
  expect(await ids()).toEqual([first.id])
})

test('a job that the database refuses fails alone', async () => {
  const { sink, ids } = await setup()
  const [good, bad, other] = [aJob(), aJob({ payload: 'no \u0000 in jsonb' }), aJob()]

  const outcomes = await deliver(sink, [good, bad, other])

  expect(failureOf(outcomes[1])).toMatch(/unicode escape/i)
  expect(deliveredOf([good, bad, other], outcomes)).toEqual([good.id, other.id])
  expect(await ids()).toEqual(sortedIds([good, other]))
})

test('a job whose insertion was committed, but not acknowledged, is delivered by the next try', async () => {
  const proxy = await startProxy(database.url)
  const cut = await started(proxy.url)
  onTestFinished(() => stopped(cut))
  const { sink, ids } = await setup({ on: cut })
  const job = aJob()

  const swallowed = proxy.swallowReplyTo(/INSERT INTO pgboss\.job/)
  const [first] = await deliver(sink, [job])
  await swallowed
  expect(failureOf(first)).toMatch(/terminated|closed|ECONNRESET/)

  expect(await deliver(sink, [job])).toEqual(['delivered'])
  expect(await ids()).toEqual([job.id])
})

test('what was reported as delivered is there after the server crashed, and the rest follows once', {
  timeout: kills.timeout,
}, async () => {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  const crashing = await started(server.url)
  onTestFinished(() => stopped(crashing))

  for (let round = 1; round <= kills.rounds; round += 1) {
    const { sink, ids } = await setup({ on: crashing })
    const jobs = someJobs(200)
    const batches = Array.from({ length: 20 }, (_, index) => jobs.slice(index * 10, (index + 1) * 10))
    const locker = new pg.Client({ connectionString: server.url })
    locker.on('error', () => {})
    await locker.connect()
    const early = batches.slice(0, 15).map((batch) => deliver(sink, batch))
    await Promise.race(early)
    await locker.query('begin; lock table pgboss.job in share mode')
    const late = batches.slice(15).map((batch) => deliver(sink, batch))
    await waitUntil('batches stand behind the lock', async () => {
      const { rows } = await locker.query("select from pg_locks where not granted and relation = 'pgboss.job'::regclass")
      return rows.length > 0
    })
    // Postgres treats the SIGKILL of one of its processes as a crash of all: they end, and it recovers from its log.
    process.kill((locker as unknown as { processID: number }).processID, 'SIGKILL')
    const delivered = deliveredOf(jobs, (await Promise.all([...early, ...late])).flat())
    expect(delivered.length).toBeGreaterThanOrEqual(10)

    await waitUntil('the server is back', () => ids().then(Boolean, () => false))
    expect(await ids()).toEqual(expect.arrayContaining(delivered))
    expect(new Set(await deliver(sink, jobs))).toEqual(new Set(['delivered']))
    expect(await ids()).toEqual(sortedIds(jobs))
  }
})
