import { expect, test } from 'vitest'
import { createOnce, type Duration, type ExecuteOptions, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, leaseMs, take } from '../../src/testing/store-cases/store-case.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import type { Waited, WaiterSettings } from './waiter.js'

const database = useDatabase()

/** Longer than any test may take: what does not come by itself does not come. */
const long = '10m'

/** Another process that has asked for the key and was told to wait. */
async function waiterOn(key: string, wait: Duration = long) {
  const child = startChild('races/waiter.ts', { url: database.url, key, wait } satisfies WaiterSettings)
  expect(await child.message()).toBe('in-progress')
  return child
}

function setup() {
  const key = crypto.randomUUID()
  const once = createOnce({ store: postgresStore(fromPg(database.pool)), lease: '10m' })
  const request: ExecuteOptions = { tenant: 'wait', scope: 'wait', key, fingerprint: { value: key }, afterFailure: 'rerun' }
  return { key, once, request }
}

test('gives a process that waits the bytes of the one that works', async () => {
  const { key, once, request } = setup()
  let waiter: ReturnType<typeof startChild> | undefined
  const body = [0, 255, 13, 10]
  await once.execute(request, async () => {
    waiter = await waiterOn(key)
    return reply(201, Uint8Array.from(body))
  })
  expect(await waiter?.message<Waited>()).toEqual({
    kind: 'replayed',
    answer: { status: 201, body },
    attempt: null,
    events: ['replayed'],
  })
})

test('lets a process that waits take over when the one that works throws', async () => {
  const { key, once, request } = setup()
  let waiter: ReturnType<typeof startChild> | undefined
  const attempt = once.execute(request, async () => {
    waiter = await waiterOn(key)
    throw new Error('boom')
  })
  await expect(attempt).rejects.toThrow('boom')
  expect(await waiter?.message<Waited>()).toMatchObject({ kind: 'executed', attempt: 2, events: ['executing', 'finished'] })
})

test('lets a process that waits take over when the lease of a dead one is over', async () => {
  const { key } = setup()
  const { store, advance } = await postgresHarness(fromPg(database.pool))
  // Nobody renews this lease.
  await take(store, aClaim({ tenant: 'wait', scope: 'wait', key, fingerprint: null }))
  const waiter = await waiterOn(key)
  await advance(leaseMs + 1)
  expect(await waiter.message<Waited>()).toMatchObject({ kind: 'executed', attempt: 2 })
})

test('lets one of several that wait take over, and gives the others its answer', async () => {
  const { key, once, request } = setup()
  let waiters: ReturnType<typeof startChild>[] = []
  const attempt = once.execute(request, async () => {
    waiters = await Promise.all([waiterOn(key), waiterOn(key), waiterOn(key)])
    throw new Error('boom')
  })
  await expect(attempt).rejects.toThrow('boom')
  const waited = await Promise.all(waiters.map((waiter) => waiter.message<Waited>()))
  expect(waited.map(({ kind }) => kind).sort()).toEqual(['executed', 'replayed', 'replayed'])
  expect(new Set(waited.map(({ answer }) => String(answer?.body))).size).toBe(1)
})

test('tells a process that has waited long enough that the key is in progress', async () => {
  const { key, once, request } = setup()
  await once.execute(request, async () => {
    const waiter = await waiterOn(key, '100ms')
    expect(await waiter.message<Waited>()).toMatchObject({ kind: 'in-progress', events: ['met-in-progress'] })
    return reply(204)
  })
})
