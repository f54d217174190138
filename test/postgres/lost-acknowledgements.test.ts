import postgres from 'postgres'
import { expect, onTestFinished, test } from 'vitest'
import { type Answer, createOnce, type ExecuteOptions, type Outcome, reply } from '../../src/index.js'
import { fromPg, fromPostgresJs, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { startProxy } from '../support/postgres/proxy.js'

const database = useDatabase()

// The proxy goes by the text of a statement, so none of them is prepared.
const claimStatement = /existing as/
const takeOverStatement = /fence = key\.fence \+ 1/
const finishStatement = /answer_status = \$9/
const releaseStatement = /set state = \$6, locked_until = null, reason = \$8::text, waiting = true/

function request(key: string): ExecuteOptions {
  return { tenant: 'lost', scope: 'lost', key, fingerprint: { value: key }, afterFailure: 'rerun' }
}

async function setup(driver: 'pg' | 'postgres.js' = 'pg') {
  const proxy = await startProxy(database.url)
  const events: string[] = []
  const onEvent = ({ type }: { type: string }) => void events.push(type)
  let once: { execute(options: ExecuteOptions, work: () => Promise<Answer>): Promise<Outcome<Answer>> }
  if (driver === 'pg') {
    once = createOnce({
      store: postgresStore(fromPg(database.createPool({ connectionString: proxy.url, max: 2 }), { prepare: false })),
      onEvent,
    })
  } else {
    const sql = postgres(proxy.url, { max: 2, prepare: false })
    onTestFinished(() => sql.end({ timeout: 0 }))
    once = createOnce({ store: postgresStore(fromPostgresJs(sql)), onEvent })
  }
  let runs = 0
  const run = (key: string) =>
    once.execute(request(key), async () => {
      runs += 1
      return reply(200, { runs })
    })
  // The connection is warm and the schema checked, so that only the statement in question is hit.
  await run(`warm-up ${crypto.randomUUID()}`)
  runs = 0
  return { proxy, once, run, events, runs: () => runs }
}

for (const driver of ['pg', 'postgres.js'] as const) {
  test(`runs once when the acknowledgement of the claim is lost (${driver})`, async () => {
    const { proxy, run, runs } = await setup(driver)
    const cut = proxy.swallowReplyTo(claimStatement)
    const outcome = await run(`claim ${driver}`)
    await cut
    expect(outcome.kind).toBe('executed')
    expect(runs()).toBe(1)
    const { rows } = await database.pool.query('select state, fence from oncekey.keys where key = $1', [`claim ${driver}`])
    // Fence 1: the repeated claim knew itself, it did not wait for its own lease and take itself over.
    expect(rows).toEqual([{ state: 'complete', fence: 1 }])
  })

  test(`stores the answer once when the acknowledgement of the finish is lost (${driver})`, async () => {
    const { proxy, run, runs, events } = await setup(driver)
    const cut = proxy.swallowReplyTo(finishStatement)
    const outcome = await run(`finish ${driver}`)
    await cut
    expect(outcome).toMatchObject({ kind: 'executed', stored: true })
    expect(events).toContain('finished')
    expect((await run(`finish ${driver}`)).kind).toBe('replayed')
    expect(runs()).toBe(1)
  })
}

test('holds the key with one fence when the acknowledgement of a take-over is lost', async () => {
  const { proxy, run, runs } = await setup()
  const key = 'take-over'
  await createOnce({ store: postgresStore(fromPg(database.pool)) })
    .execute(request(key), () => {
      throw new Error('released')
    })
    .catch(() => {})
  const cut = proxy.swallowReplyTo(takeOverStatement)
  expect((await run(key)).kind).toBe('executed')
  await cut
  expect(runs()).toBe(1)
  const { rows } = await database.pool.query('select state, fence from oncekey.keys where key = $1', [key])
  expect(rows).toEqual([{ state: 'complete', fence: 2 }])
})

test('gives the key back when the acknowledgement of the release is lost', async () => {
  const { proxy, once, run } = await setup()
  const key = 'release'
  const cut = proxy.swallowReplyTo(releaseStatement)
  const attempt = once.execute(request(key), () => {
    throw new Error('the work fails')
  })
  await expect(attempt).rejects.toThrow('the work fails')
  await cut
  expect((await run(key)).kind).toBe('executed')
})

test('says that the outcome is not stored when the database stays away, and delivers the true answer', async () => {
  const proxy = await startProxy(database.url)
  const events: string[] = []
  const once = createOnce({
    store: postgresStore(fromPg(database.createPool({ connectionString: proxy.url, connectionTimeoutMillis: 200 }))),
    lease: '300ms',
    storeTimeout: '300ms',
    onEvent: ({ type }) => void events.push(type),
  })
  const outcome = await once.execute(request('away'), async () => {
    proxy.blackHole(/./)
    return reply(201, { charged: true })
  })
  expect(outcome).toMatchObject({
    kind: 'executed',
    stored: false,
    error: { code: expect.stringMatching(/^store_(timeout|unavailable)$/) },
  })
  expect(outcome.kind === 'executed' && outcome.answer.status).toBe(201)
  expect(events).toContain('answer-not-stored')
})

test('answers within storeTimeout when the database hangs, and does not run the work', async () => {
  const proxy = await startProxy(database.url)
  const once = createOnce({ store: postgresStore(fromPg(database.createPool({ connectionString: proxy.url }))), storeTimeout: '300ms' })
  proxy.blackHole(claimStatement)
  let runs = 0
  const attempt = once.execute(request('hangs'), () => {
    runs += 1
    return reply(200)
  })
  await expect(attempt).rejects.toMatchObject({ code: 'store_timeout', status: 503 })
  expect(runs).toBe(0)
})
