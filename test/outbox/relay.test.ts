import { describe, expect, test } from 'vitest'
import type { Sink } from '../../src/outbox/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { manualClock } from '../../src/testing/index.js'
import { relay, workers } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { down, nothing, setup } from './setup.js'

const database = useDatabase()
const hour = 3_600_000
const named = (sinks: Record<string, Sink['deliver']>) =>
  Object.fromEntries(Object.entries(sinks).map(([name, deliver]) => [name, { name, deliver }]))

describe.each([false, true])('with distributed: %s', (distributed) => {
  test('delivers what a commit staged, once, and leaves nothing behind', async () => {
    const { stage, newRelay, got, tenant, rows, eventsOf } = await setup(database, { distributed })
    await stage({ name: 'mail', payload: { to: 'a' } }, { name: 'mail', payload: { to: 'b' }, options: { group: 'g' } })
    expect(await newRelay().runOnce()).toEqual({ ...nothing, delivered: 2 })
    expect(got.map(({ id: _, stagedAt: __, ...job }) => job).sort((a) => (a.group ? 1 : -1))).toEqual([
      { tenant, name: 'mail', payload: { to: 'a' }, group: null, attempt: 1 },
      { tenant, name: 'mail', payload: { to: 'b' }, group: 'g', attempt: 1 },
    ])
    expect(await rows()).toEqual([])
    expect(eventsOf('job-delivered')).toMatchObject([
      { tenant, job: 'mail', attempt: 1 },
      { tenant, job: 'mail' },
    ])
    expect(await newRelay().runOnce()).toEqual(nothing)
  })

  test('delivers each job by one of many relays that look at once', async () => {
    const { stage, newRelay, got } = await setup(database, { distributed })
    await stage(...Array.from({ length: 300 }, (_, n) => ({ payload: n, options: n % 2 ? { group: `g${n % 14}` } : {} })))
    const counts = await Promise.all(Array.from({ length: 5 }, () => newRelay({ batch: 20 }).runOnce()))
    expect(counts.reduce((sum, { delivered = 0 }) => sum + delivered, 0)).toBe(300)
    expect(new Set(got.map(({ id }) => id)).size).toBe(300)
    for (let group = 1; group < 14; group += 2) {
      const order = got.filter((job) => job.group === `g${group}`).map(({ payload }) => payload as number)
      expect(order).toEqual([...order].sort((a, b) => a - b))
    }
  })

  test('takes the jobs of one commit in the order in which they were staged', async () => {
    const { stage } = await setup(database, { distributed })
    await stage(...Array.from({ length: 30 }, (_, n) => ({ payload: n })))
    const { outbox } = postgresStore(fromPg(database.pool), { distributed })
    const { jobs } = await outbox.jobsTake({ token: crypto.randomUUID(), leaseMs: 1_000, limit: 100, heldByDead: false })
    expect(jobs.map(({ payload }) => Number(payload))).toEqual(Array.from({ length: 30 }, (_, n) => n))
  })

  test('holds a group while its head waits for a retry, and lets all others flow', async () => {
    const { stage, newRelay, payloads, advance } = await setup(database, { distributed })
    for (const n of [1, 2, 3]) await stage({ payload: `a${n}`, options: { group: 'a' } }, { payload: `b${n}`, options: { group: 'b' } })
    await stage({ payload: 'alone' })
    let isDown = true
    const service = newRelay({ work: ({ group }) => (isDown && group === 'a' ? down() : undefined), backoff: { first: '1h' } })
    expect(await service.runOnce()).toEqual({ ...nothing, delivered: 4, failed: 1 })
    expect([...payloads()].sort()).toEqual(['alone', 'b1', 'b2', 'b3'])
    isDown = false
    expect(await service.runOnce()).toEqual(nothing)
    await advance(hour)
    await service.runOnce()
    expect(payloads().filter((payload) => String(payload).startsWith('a'))).toEqual(['alone', 'a1', 'a2', 'a3'])
  })

  test('cannot settle a job that another relay has by now', async () => {
    const store = postgresStore(fromPg(database.pool), { distributed })
    let takes = 0
    const jobsTake: typeof store.outbox.jobsTake = async (take) => {
      const taken = await store.outbox.jobsTake(take)
      takes += 1
      return taken
    }
    const counted = { ...store, outbox: { ...store.outbox, jobsTake } }
    const { stage, newRelay, advance, got, eventsOf, rows } = await setup(database, { store: counted })
    await stage({ payload: 1 })
    let open = () => {}
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    let begun = false
    const frozen = newRelay({
      async work() {
        begun = true
        await gate
        return down()
      },
    }).runOnce()
    // It looks for more once, and must not find its own job.
    await waitUntil('the first relay delivers, and has looked for more', () => begun && takes === 2)
    await advance(hour)
    const second = newRelay({ work: () => new Promise<void>((resolve) => open2.push(() => resolve())) })
    const open2: (() => void)[] = []
    const running = second.runOnce()
    await waitUntil('the second relay delivers it too', () => open2.length === 1)
    open()
    expect(await frozen).toEqual({ ...nothing, unsettled: 1 })
    expect(await rows()).toMatchObject([{ attempts: 2, last_error: null }])
    open2[0]?.()
    expect(await running).toEqual({ ...nothing, delivered: 1 })
    expect(got.map(({ attempt }) => attempt)).toEqual([2])
    expect(eventsOf('job-unsettled')).toMatchObject([{ error: { code: 'lease_lost' } }])
  })
})

test('starts on what this process commits without looking for it', async () => {
  // This clock stands still: whatever happens is not for a poll.
  const { stage, newRelay, got } = await setup(database, { clock: manualClock() })
  const service = newRelay()
  service.start()
  await stage({ payload: 1 })
  await waitUntil('it is delivered', () => got.length === 1)
  await stage({ payload: 2, options: { group: 'g' } }, { payload: 3, options: { group: 'g' } })
  await waitUntil('they are delivered', () => got.length === 3)
  await service.stop()
})

test('finds what other processes commit, and looks less and less often while there is nothing', async () => {
  const { stage, got, newRelay } = await setup(database)
  const other = await setup(database)
  const service = newRelay({ every: 50 })
  service.start()
  await other.stage({ payload: 1 })
  await waitUntil('it is delivered', () => got.length === 1)
  await service.stop()
  await stage({ payload: 2 })
  expect(got).toHaveLength(1)
})

test('delivers a row that commits late, with an older time and a lower id than what was delivered long before', async () => {
  const { stage, got, newRelay, tenant } = await setup(database)
  const late = await database.pool.connect()
  await late.query('begin')
  await late.query(
    `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
     select $1, '00000000-0000-4000-8000-000000000001', gen_random_uuid(), gen_random_uuid(), 'late', '"late"', time, time
     from (select clock_timestamp() - interval '1 hour' as time) as clock`,
    [tenant],
  )
  const service = newRelay({ every: 20 })
  service.start()
  await stage({ payload: 1 })
  await waitUntil('the first is delivered', () => got.length === 1)
  await stage({ payload: 2 })
  await waitUntil('the second is delivered', () => got.length === 2)
  await late.query('commit')
  late.release()
  await waitUntil('the late one is delivered', () => got.length === 3)
  await service.stop()
  expect(got[2]?.payload).toBe('late')
})

test('waits for the delay of a job, and with it the rest of its group', async () => {
  const { stage, newRelay, payloads, advance } = await setup(database)
  await stage(
    { payload: 1, options: { group: 'g', delay: '1h' } },
    { payload: 2, options: { group: 'g' } },
    { payload: 3, options: { delay: '2h' } },
  )
  const service = newRelay()
  expect(await service.runOnce()).toEqual(nothing)
  await advance(hour)
  await service.runOnce()
  expect(payloads()).toEqual([1, 2])
  await advance(hour)
  await service.runOnce()
  expect(payloads()).toEqual([1, 2, 3])
})

test('tries a job again as the receiver says, and gives it up after its attempts', async () => {
  const { stage, newRelay, advance, rows, eventsOf } = await setup(database)
  await stage({ payload: 1 })
  const service = newRelay({ work: () => ({ ...down(), retryAfterMs: hour }), maxAttempts: 2, backoff: { first: 1 } })
  expect(await service.runOnce()).toEqual({ ...nothing, failed: 1 })
  await advance(0.9 * hour)
  expect(await service.runOnce()).toEqual(nothing)
  await advance(0.4 * hour)
  expect(await service.runOnce()).toEqual({ ...nothing, dead: 1 })
  expect(await rows()).toMatchObject([{ attempts: 2, last_error: 'the receiver is down', token: null }])
  expect(eventsOf('job-failed')).toMatchObject([{ attempt: 1, error: { message: 'the receiver is down' } }])
  expect(eventsOf('job-dead')).toMatchObject([{ attempt: 2, sink: 'sink' }])
  await advance(100 * hour)
  expect(await service.runOnce()).toEqual(nothing)
})

test('does not let a job that fails stop its neighbours, in one call of a sink or in many', async () => {
  const { stage, once } = await setup(database)
  const got: unknown[] = []
  const sink: Sink = {
    name: 'queue',
    maxBatch: 10,
    deliver: async (jobs) =>
      jobs.map(({ payload }) => {
        if (payload === 7) return { error: 'poison', final: true }
        got.push(payload)
        return 'delivered'
      }),
  }
  await stage(...Array.from({ length: 30 }, (_, payload) => ({ payload })))
  expect(await relay(once, { sink }).runOnce()).toEqual({ ...nothing, delivered: 29, dead: 1 })
  expect(got).toHaveLength(29)
})

test('takes what a sink throws or forgets as not delivered', async () => {
  const { stage, once, eventsOf } = await setup(database)
  const wrong: Record<string, Sink['deliver']> = {
    throws: () => {
      throw new Error('no')
    },
    'throws nothing': () => Promise.reject(),
    forgets: async () => [],
  }
  await stage(...Object.keys(wrong).map((name) => ({ name })))
  expect(await relay(once, { sinks: named(wrong), backoff: { first: '1h' } }).runOnce()).toEqual({ ...nothing, failed: 3 })
  expect(
    eventsOf('job-failed')
      .map(({ sink }) => sink)
      .sort(),
  ).toEqual(['forgets', 'throws', 'throws nothing'])
})

test('gives up at once what a sink answers wrongly, because it may be delivered each time', async () => {
  const { stage, once, rows } = await setup(database)
  const wrong: Record<string, Sink['deliver']> = {
    mumbles: async () => ['yes' as 'delivered'],
    // @ts-expect-error An error is there, or it is delivered.
    null: async () => [{ error: null }],
    // @ts-expect-error What became of each job is a list.
    nothing: async () => {},
  }
  await stage(...Object.keys(wrong).map((name) => ({ name })))
  expect(await relay(once, { sinks: named(wrong) }).runOnce()).toEqual({ ...nothing, dead: 3 })
  for (const { last_error } of await rows()) expect(last_error).toContain(`must return an array with 'delivered' or { error }`)
})

test('takes what a function returns as delivered, whatever it is, unless it says that it failed', async () => {
  const { stage, once, rows } = await setup(database)
  const returned: Record<string, unknown> = {
    'fine: nothing': undefined,
    'fine: delivered': 'delivered',
    'fine: Resend': { data: { id: '1' }, error: null },
    'fine: Supabase': { data: null, error: null, status: 201 },
    'fine: undefined': { error: undefined },
    'fine: a flag': { error: false },
    'fine: nodemailer': { accepted: ['a@example.com'], response: '250 OK' },
    'fine: fetch': new Response(null, { status: 204 }),
    'fine: a logger': { error: () => {} },
    'fails: delivery': { error: new Error('down') },
    'fails: an empty text': { error: '' },
    'fails: Resend': { data: null, error: { name: 'validation_error', message: 'no sender' } },
    'fails: fetch': new Response(null, { status: 500 }),
    'fails: for good': { error: new Error('gone'), final: true },
  }
  const names = Object.keys(returned)
  await stage(...names.map((name) => ({ name })))
  const sink = ({ name }: { name: string }) => returned[name]
  expect(await relay(once, { sink, backoff: { first: '1h' } }).runOnce()).toEqual({ ...nothing, delivered: 9, failed: 4, dead: 1 })
  expect((await rows()).map(({ name, last_error }) => [name, last_error])).toEqual([
    ['fails: delivery', 'down'],
    ['fails: an empty text', ''],
    ['fails: Resend', 'no sender'],
    ['fails: fetch', expect.stringContaining('ok: false')],
    ['fails: for good', 'gone'],
  ])
})

test('outlives errors and answers of any kind, and settles their jobs', async () => {
  const { stage, once, rows } = await setup(database)
  const sinks: Record<string, Sink['deliver']> = {
    bare: async () => [{ error: Object.create(null) }],
    list: () => Promise.reject(Object.assign(new Error(), { message: ['to is empty'] })),
    late: async () => [{ error: new Error('later'), retryAfterMs: 5n as unknown as number }],
    traps: async () => [
      {
        get error(): Error {
          throw new Error('trap')
        },
      },
    ],
  }
  await stage(...Object.keys(sinks).map((name) => ({ name })))
  expect(await relay(once, { sinks: named(sinks), backoff: { first: '1h' } }).runOnce()).toEqual({ ...nothing, failed: 4 })
  expect((await rows()).map(({ name, token, last_error }) => [name, token, last_error])).toEqual([
    ['bare', null, 'an error without a message'],
    ['list', null, 'to is empty'],
    ['late', null, expect.stringContaining('BigInt')],
    ['traps', null, 'trap'],
  ])
})

test('tells a sink that hangs to stop, and does not let it hold up another one', async () => {
  const { stage, once, eventsOf } = await setup(database)
  const got: unknown[] = []
  let signal: AbortSignal | undefined
  await stage({ name: 'hangs' }, { name: 'flows', payload: 1 })
  const counts = await relay(once, {
    sinks: {
      hangs: (_, options) => {
        signal = options.signal
        return new Promise(() => {})
      },
      flows: ({ payload }) => void got.push(payload),
    },
    timeout: 50,
    backoff: { first: '1h' },
  }).runOnce()
  expect(counts).toEqual({ ...nothing, delivered: 1, failed: 1 })
  expect(signal?.reason).toMatchObject({ code: 'delivery_timeout' })
  expect(eventsOf('job-failed')).toMatchObject([{ job: 'hangs', error: { code: 'delivery_timeout' } }])
})

test('takes only jobs that it has a sink for, and leaves the others to other relays', async () => {
  const { stage, once } = await setup(database)
  const got: string[] = []
  await stage({ name: 'mail' }, { name: 'ledger' }, { name: 'mail', options: { group: 'g' } }, { name: 'ledger', options: { group: 'g' } })
  const only = (name: string) => relay(once, { sinks: { [name]: (job) => void got.push(job.name) } })
  expect(await only('ledger').runOnce()).toEqual({ ...nothing, delivered: 1 })
  expect(await only('mail').runOnce()).toEqual({ ...nothing, delivered: 2 })
  expect(await only('ledger').runOnce()).toEqual({ ...nothing, delivered: 1 })
  expect(got).toEqual(['ledger', 'mail', 'mail', 'ledger'])
})

test('gives back untried what has not begun when it is stopped, and waits for what has', async () => {
  const { stage, newRelay, got, rows } = await setup(database)
  await stage(...Array.from({ length: 10 }, (_, payload) => ({ payload })))
  const open: (() => void)[] = []
  const service = newRelay({ concurrency: 2, work: () => new Promise<void>((resolve) => open.push(() => resolve())) })
  service.start()
  await waitUntil('two are under way', () => open.length === 2)
  const stopped = service.stop()
  await waitUntil('the others are given back', async () => (await rows()).filter(({ token }) => token === null).length === 8)
  expect((await rows()).filter(({ attempts }) => attempts === 0)).toHaveLength(8)
  for (const each of open) each()
  await stopped
  expect(got).toHaveLength(2)
  expect(await rows()).toHaveLength(8)
})

test('does not begin a delivery that its lease might not outlast', async () => {
  const clock = manualClock()
  const store = postgresStore(fromPg(database.pool))
  let takes = 0
  const jobsTake: typeof store.outbox.jobsTake = async (take) => {
    const taken = await store.outbox.jobsTake(take)
    takes += 1
    return taken
  }
  const { stage, newRelay, payloads } = await setup(database, { clock, store: { ...store, outbox: { ...store.outbox, jobsTake } } })
  await stage({ payload: 1 }, { payload: 2 })
  let begun = 0
  const running = newRelay({
    ...{ concurrency: 1, lease: '1m', timeout: '30s', backoff: { first: '1h' } },
    work({ payload }) {
      begun += 1
      return payload === 1 ? new Promise(() => {}) : undefined
    },
  }).runOnce()
  // A look that was under way would find the second job under a lease from before the clock moved.
  await waitUntil('the first is under way, and it has looked for more', () => begun === 1 && takes === 2)
  clock.advance(30_001)
  // The second is given back, and delivered under a lease of its own.
  expect(await running).toEqual({ ...nothing, failed: 1, released: 1, delivered: 1 })
  expect([payloads(), begun]).toEqual([[2], 2])
})

test('has no more in hand than three batches, however much there is', async () => {
  const { stage, newRelay } = await setup(database)
  await stage(...Array.from({ length: 200 }, (_, payload) => ({ payload })))
  let most = 0
  const held = async () => {
    const { rows } = await database.pool.query('select count(*)::integer as held from oncekey.jobs where token is not null')
    most = Math.max(most, rows[0].held)
  }
  expect(await newRelay({ batch: 10, concurrency: 100, work: held }).runOnce()).toEqual({ ...nothing, delivered: 200 })
  expect(most).toBeGreaterThan(10)
  expect(most).toBeLessThanOrEqual(30)
})

test('is one of the workers when it is asked for', async () => {
  const { stage, once, got } = await setup(database)
  await stage({})
  const counts = await workers(once, { relay: { sink: (job) => void got.push(job) } }).runOnce()
  expect([counts['relay.delivered'], got.length]).toEqual([1, 1])
  expect(Object.keys(await workers(once).runOnce()).some((name) => name.startsWith('relay'))).toBe(false)
})
