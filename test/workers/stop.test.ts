import { expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { completer, workers } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { setup } from './setup.js'

const database = useDatabase()

/** Work that waits until the test lets it go on, and says when it has come there. */
function gate() {
  let open = () => {}
  let arrive = () => {}
  const opened = new Promise<void>((resolve) => (open = resolve))
  const arrived = new Promise<void>((resolve) => (arrive = resolve))
  return {
    arrived,
    open: () => open(),
    pass() {
      arrive()
      return opened
    },
  }
}

const options = (tenant: string, key: string) => ({ tenant, scope: 'pay', key, fingerprint: false, afterFailure: 'rerun' }) as const

test('takes no new work, of any kind', async () => {
  const { once, tenant, record } = await setup(database)
  const operation = once.operation('op', {}, () => reply(201))
  const local = once.local('local', {}, () => reply(201))
  expect(await once.stop()).toEqual({ abandoned: 0 })
  const refused = { code: 'shutting_down', status: 503 }
  await expect(once.execute(options(tenant, 'k'), () => reply(201))).rejects.toMatchObject(refused)
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toMatchObject(refused)
  await expect(local.run({ tenant, key: 'k', input: null })).rejects.toMatchObject(refused)
  expect(await record('k')).toBeUndefined()
})

test('lets what is under way finish, and waits for it', async () => {
  const { once, tenant, record } = await setup(database)
  const { arrived, open, pass } = gate()
  const work = once.execute(options(tenant, 'k'), async () => {
    await pass()
    return reply(201)
  })
  await arrived
  let stopped = false
  const stopping = once.stop({ within: '10m' }).then((result) => {
    stopped = true
    return result
  })
  expect(stopped).toBe(false)
  open()
  expect((await work).kind).toBe('executed')
  expect(await stopping).toEqual({ abandoned: 0 })
  expect((await record('k'))?.state).toBe('complete')
})

test('gives back what is not done in time, at its recovery point, for others to take up at once', async () => {
  const { once, newOnce, tenant, store, eventsOf } = await setup(database)
  const { arrived, open, pass } = gate()
  const signals: unknown[] = []
  const define = (on: typeof once, wait: boolean, phases: string[]) =>
    on.operation('long', {}, async (run) => {
      await run.phase('first', () => void phases.push('first'))
      if (wait) await pass()
      signals.push(run.signal.reason)
      await run.phase('second', () => void phases.push('second'))
      return reply(201, { attempt: run.attempt })
    })
  const [here, there]: [string[], string[]] = [[], []]
  const work = define(once, true, here).run({ tenant, key: 'k', input: null })
  work.catch(() => {})
  await arrived
  expect(await once.stop({ within: 1 })).toEqual({ abandoned: 1 })
  expect(await store.keyRead({ tenant, scope: 'long', key: 'k' })).toMatchObject({ state: 'pending', recoveryPoint: 'first' })

  const next = newOnce()
  define(next, false, there)
  expect((await completer(next).runOnce()).completed).toBe(1)
  open()
  await expect(work).rejects.toMatchObject({ code: 'lease_lost' })
  expect(signals[1]).toMatchObject({ code: 'lease_lost' })
  expect([here, there]).toEqual([['first'], ['second']])
  expect([eventsOf('released').length, eventsOf('lease-lost').length]).toEqual([1, 0])
  expect((await store.keyRead({ tenant, scope: 'long', key: 'k' }))?.fence).toBe(2)
})

test.each([
  ['store', 'failed'],
  ['park', 'parked'],
] as const)("ends opaque work that is not done in time as its afterFailure: '%s' says", async (afterFailure, state) => {
  const { once, tenant, record } = await setup(database)
  const { arrived, open, pass } = gate()
  const work = once.execute({ ...options(tenant, 'k'), afterFailure }, async () => {
    await pass()
    return reply(201)
  })
  work.catch(() => {})
  await arrived
  expect(await once.stop({ within: 1 })).toEqual({ abandoned: 1 })
  open()
  await expect(work).rejects.toMatchObject({ code: 'lease_lost' })
  expect((await record('k'))?.state).toBe(state)
})

test('gives back a key that it is given while it stops, before anything is done with it', async () => {
  const { once, tenant, record } = await setup(database)
  let ran = false
  const work = once.execute({ ...options(tenant, 'k'), afterFailure: 'park' }, () => {
    ran = true
    return reply(201)
  })
  work.catch(() => {})
  expect(await once.stop({ within: '10m' })).toEqual({ abandoned: 0 })
  await expect(work).rejects.toMatchObject({ code: 'shutting_down' })
  expect([ran, (await record('k'))?.state]).toEqual([false, 'pending'])
})

test('waits for a claim past the deadline, and gives back what it comes to', async () => {
  const { once, tenant, record } = await setup(database)
  // Another claim of the same key is not committed, so this one waits for it.
  const other = await database.pool.connect()
  await other.query('begin')
  await postgresStore(fromPg(database.pool)).steps.keyClaimWithin(
    {
      ...{
        tenant,
        scope: 'pay',
        key: 'k',
        owner: crypto.randomUUID(),
        fingerprint: null,
        leaseMs: 1_000,
        afterFailure: 'rerun',
        request: null,
      },
      ...{ retention: { ms: 86_400_000, from: 'creation', floorMs: 0 }, worker: false },
    },
    other,
  )
  let ran = false
  const work = once.execute(options(tenant, 'k'), () => {
    ran = true
    return reply(201)
  })
  work.catch(() => {})
  const stopping = once.stop({ within: 1 })
  await new Promise((resolve) => setTimeout(resolve, 1))
  await waitUntil('the claim waits', async () => (await database.pool.query('select from pg_locks where not granted')).rows.length > 0)
  await other.query('rollback')
  other.release()
  expect(await stopping).toEqual({ abandoned: 1 })
  await expect(work).rejects.toMatchObject({ code: 'shutting_down' })
  expect([ran, (await record('k'))?.state]).toEqual([false, 'pending'])
})

test('does not wait with those who wait for a key', async () => {
  const { once, tenant, abandon } = await setup(database)
  await abandon('k')
  const work = once.execute({ ...options(tenant, 'k'), wait: '10m' }, () => reply(201))
  expect(await once.stop({ within: '10m' })).toEqual({ abandoned: 0 })
  expect((await work).kind).toBe('in-progress')
})

test.each([false, true])('stores nothing that the work makes of being stopped, with run.finish: %s', async (finishes) => {
  const { tenant, record } = await setup(database)
  const { arrived, open, pass } = gate()
  const { open: send, pass: held } = gate()
  const connection = fromPg(database.pool)
  // The answer is at the database before the release is.
  const slow: typeof connection = {
    ...connection,
    async query(text, values) {
      if (text.includes('waiting = true, due_at')) await held()
      return connection.query(text, values)
    },
  }
  const once = createOnce({ store: postgresStore(slow) })
  const work = once.execute(options(tenant, 'k'), async (run) => {
    run.signal.addEventListener('abort', open)
    const answer = async () => {
      await pass()
      return reply(502, { error: 'the provider did not answer' })
    }
    return finishes ? run.finish(answer) : answer()
  })
  work.catch(() => {})
  await arrived
  const stopping = once.stop({ within: 1 })
  await expect(work).rejects.toMatchObject({ code: 'lease_lost' })
  send()
  expect(await stopping).toEqual({ abandoned: 1 })
  expect((await record('k'))?.state).toBe('pending')
})

test('may be asked twice: the first one ends when the work does, and no key is given back twice', async () => {
  const { once, tenant, eventsOf } = await setup(database)
  const { arrived, open, pass } = gate()
  const work = once.execute(options(tenant, 'k'), async () => {
    await pass()
    return reply(201)
  })
  work.catch(() => {})
  await arrived
  const patient = once.stop({ within: '10m' })
  const both = await Promise.all([once.stop({ within: 1 }), once.stop({ within: 1 })])
  expect(both).toEqual([{ abandoned: 1 }, { abandoned: 0 }])
  open()
  expect(await patient).toEqual({ abandoned: 0 })
  await expect(work).rejects.toMatchObject({ code: 'lease_lost' })
  expect(eventsOf('released')).toHaveLength(1)
  expect(eventsOf('lease-lost')).toEqual([])
})

test('background work does not wait for what was given back, and does not end by itself', async () => {
  const { once, newOnce, tenant, store, advance } = await setup(database)
  const failing = newOnce().operation('stubborn', {}, () => {
    throw new Error('first')
  })
  await failing.run({ tenant, key: 'k', input: null }).catch(() => {})
  await advance(3_600_000)
  const { arrived, open, pass } = gate()
  once.operation('stubborn', {}, async () => {
    await pass()
    return reply(201)
  })
  const background = workers(once)
  background.start()
  await arrived
  await Promise.all([background.stop(), once.stop({ within: 1 })])
  expect((await store.keyRead({ tenant, scope: 'stubborn', key: 'k' }))?.state).toBe('pending')
  open()
})

test('waits for local work, whose transaction is all or nothing', async () => {
  const { once, tenant } = await setup(database)
  const { arrived, open, pass } = gate()
  const local = once.local('local', {}, async () => {
    await pass()
    return reply(201)
  })
  const work = local.run({ tenant, key: 'k', input: null })
  await arrived
  const stopping = once.stop({ within: '10m' })
  open()
  expect((await work).kind).toBe('executed')
  expect(await stopping).toEqual({ abandoned: 0 })
})

test('a completer begins nothing more once the process is stopping', async () => {
  const { once, newOnce, tenant, store, advance } = await setup(database)
  const failing = newOnce().operation('later', {}, () => {
    throw new Error('first')
  })
  await failing.run({ tenant, key: 'k', input: null }).catch(() => {})
  await advance(3_600_000)
  once.operation('later', {}, () => reply(201))
  await once.stop()
  expect(await completer(once).runOnce()).toEqual({ completed: 0, failed: 0, parked: 0, elsewhere: 0 })
  expect((await store.keyRead({ tenant, scope: 'later', key: 'k' }))?.state).toBe('pending')
})
