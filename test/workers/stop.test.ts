import { expect, test } from 'vitest'
import { reply } from '../../src/index.js'
import { completer } from '../../src/workers/index.js'
import { useDatabase } from '../support/postgres/database.js'
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
  const { once, newOnce, tenant, store } = await setup(database)
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
