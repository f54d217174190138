import { expect, test } from 'vitest'
import { bodyOf, createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

/** Longer than any test may take: what does not come by itself does not come. */
const long = '10m'

/** A service whose first verdict on a key can be waited for. */
async function waiting() {
  const bundle = await setup(database)
  const store = postgresStore(fromPg(bundle.pool))
  const events: string[] = []
  let met = () => {}
  const metInProgress = new Promise<void>((resolve) => {
    met = resolve
  })
  const other = createOnce({
    store: {
      ...store,
      async keyClaim(claim) {
        const verdict = await store.keyClaim(claim)
        if (verdict.kind === 'in-progress') met()
        return verdict
      },
    },
    onEvent: ({ type }) => void events.push(type),
  })
  return { ...bundle, other, otherEvents: events, metInProgress }
}

test('replays to a run that waits what the other run finished with', async () => {
  const { once, other, tenant, metInProgress, otherEvents } = await waiting()
  const again = other.operation('waits', {}, () => reply(500))
  let waiter: ReturnType<typeof again.run> | undefined
  const operation = once.operation('waits', {}, async (run) => {
    await run.phase('ordered', () => 1)
    waiter = again.run({ tenant, key: 'k', input: null, wait: long })
    await metInProgress
    return run.finish(() => reply(201, { by: 'the first' }))
  })
  const outcome = await operation.run({ tenant, key: 'k', input: null })
  const waited = await waiter
  expect(waited?.kind === 'replayed' && Buffer.from(waited.answer.body).toString()).toBe('{"by":"the first"}')
  expect(waited).toMatchObject({ kind: 'replayed', incarnation: outcome.kind === 'executed' && outcome.incarnation })
  expect(otherEvents).toEqual(['replayed'])
})

test('lets a run that waits go on where the other one stopped', async () => {
  const { once, other, tenant, metInProgress } = await waiting()
  let phases = 0
  let waiter: Promise<unknown> | undefined
  const define = (which: typeof once, after: () => Promise<void>) =>
    which.operation('goes-on', {}, async (run) => {
      const { phase } = await run.phase('ordered', () => ({ phase: ++phases }))
      await after()
      return reply(201, { phase, attempt: run.attempt })
    })
  const second = define(other, async () => {})
  const first = define(once, async () => {
    waiter = second.run({ tenant, key: 'k', input: null, wait: long })
    await metInProgress
    throw new Error('half-way')
  })
  await expect(first.run({ tenant, key: 'k', input: null })).rejects.toThrow('half-way')
  const outcome = (await waiter) as Awaited<ReturnType<typeof second.run>>
  expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual({ phase: 1, attempt: 2 })
})

test('gives up when the time is over, and does not wait for a parked key or another request', async () => {
  const { once, other, tenant, otherEvents } = await waiting()
  const again = other.operation('gives-up', {}, () => reply(500))
  const operation = once.operation('gives-up', {}, async (run) => {
    expect((await again.run({ tenant, key: 'k', input: 1, wait: '50ms' })).kind).toBe('in-progress')
    expect((await again.run({ tenant, key: 'k', input: 2, wait: long })).kind).toBe('mismatch')
    await run.call('charge', () => Promise.reject(new Error('reset')), { whenUnknown: 'park' })
    return reply(200)
  })
  expect((await operation.run({ tenant, key: 'k', input: 1 })).kind).toBe('parked')
  expect((await again.run({ tenant, key: 'k', input: 1, wait: long })).kind).toBe('parked')
  expect(otherEvents).toEqual(['met-in-progress', 'mismatched', 'met-parked'])
})

test('refuses a wait that is no duration before anything is claimed', async () => {
  const { once, tenant, key } = await setup(database)
  const operation = once.operation('bad-wait', {}, () => reply(200))
  await expect(operation.run({ tenant, key: 'k', input: 1, wait: 0 })).rejects.toMatchObject({ code: 'duration_invalid' })
  expect(await key('k')).toBeUndefined()
})
