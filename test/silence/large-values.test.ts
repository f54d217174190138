import { beforeAll, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Asked, effectsTable, type Flow, type Told } from './flows.js'
import { comes, inShort, violations } from './invariants.js'
import { largeBytes, long, workMs } from './limits.js'
import { startOutside } from './outside.js'
import { afterwards, warmedUp } from './rest.js'
import { type Service, startService } from './service.js'
import { startSilentProxy } from './silent-proxy.js'

const database = useDatabase()
beforeAll(() => database.pool.query(effectsTable))

const jobs = long ? 200 : 30
/** As many as a relay delivers at the same time have twice as much as it may have in hand. */
const jobBytes = 3_000_000
/** The relay's `maxBytes`, unless it is set. */
const mostBytes = 33_554_432
/** How often a payload is in memory at once: as it was read, parsed, and as it is sent. */
const mostTimes = 3
/** What else the server sends meanwhile: other statements, and what is around values. */
const otherBytes = 1_000_000

test('a relay with large jobs and a receiver that is slow has a bounded number of bytes in hand', { timeout: 600_000 }, async () => {
  const { pool } = database
  const outside = await startOutside()
  const proxy = await startSilentProxy(database.url)
  // No delivery ends by its timeout: nothing is read twice.
  const service = await startService(proxy.url, outside, { deliveryMs: 60_000 })
  const before = await warmedUp(service)
  await service.stopBackground()
  const ids = Array.from({ length: jobs }, (_, index) => `large-${index}`)
  for (let at = 0; at < jobs; at += 5)
    await untilStored(
      service,
      ids.slice(at, at + 5).map((id) => ['operation', { id, jobBytes }] as const),
    )

  const release = outside.hold()
  const bytesBefore = proxy.repliedBytes()
  const bytesInHand = () => proxy.repliedBytes() - bytesBefore
  await service.startBackground()
  await waitUntil('the relay has as much as it may have', () => bytesInHand() > mostBytes - jobBytes)
  const wrong: string[] = []
  const isOver = await comes(() => bytesInHand() > mostBytes + otherBytes, 2_000)
  if (isOver) wrong.push(`the relay has ${Math.round(bytesInHand() / 1e6)} MB in hand`)
  const heapGrowth = (await service.heapBytes()) - before.heapBytes
  if (heapGrowth > mostTimes * mostBytes) wrong.push(`the heap grew by ${Math.round(heapGrowth / 1e6)} MB`)
  release()
  const isDelivered = await comes(() => ids.every((id) => [...outside.jobs.values()].some(({ key }) => key === id)), workMs)
  if (!isDelivered) wrong.push(`not within ${workMs} ms: all jobs are delivered`)
  wrong.push(...(await violations(pool, outside, [])))
  wrong.push(...(await afterwards(service, before)))
  expect(inShort(wrong)).toEqual([])
})

test('a request that waits for a key does not read its large request again and again', async () => {
  const outside = await startOutside()
  const proxy = await startSilentProxy(database.url)
  const [holder, waiter] = await Promise.all([
    startService(database.url, outside, { background: false }),
    startService(proxy.url, outside, { background: false }),
  ])
  const held = holder.requests(['operation', { id: 'waited-for', requestPad: 'x'.repeat(5_000_000), workMs: 1_500 }])
  await waitUntil('it is held', () => holder.ran.has('waited-for'))
  const before = proxy.repliedBytes()
  const [told] = await waiter.requests(['operation', { id: 'waited-for', waitMs: 10_000 }])
  expect(told).toMatchObject({ kind: 'replayed', nonce: (await held)[0]?.nonce })
  // Once, at the most, and what a request costs otherwise.
  expect(proxy.repliedBytes() - before).toBeLessThan(2 * 5_000_000 + 1_000_000)
})

test('an answer of many megabytes is replayed as it was, alone and beside others', async () => {
  const outside = await startOutside()
  const service = await startService(database.url, outside, { background: false })
  const before = await warmedUp(service)
  const ids = ['one', 'two', 'three']
  const first = await untilStored(
    service,
    ids.map((id) => ['rerun', { id, answerBytes: largeBytes }] as const),
  )
  const again = await service.requests(...[...ids, ...ids].map((id) => ['rerun', { id }] as const))
  expect(again.map(({ kind }) => kind)).toEqual(Array(6).fill('replayed'))
  expect(again.map(({ nonce }) => nonce)).toEqual([...first, ...first].map(({ nonce }) => nonce))
  expect(await afterwards(service, before)).toEqual([])
})

/** Sends requests until the answer of each is stored: a slow machine may take longer than `storeTimeout` for one. Returns those answers. */
async function untilStored(service: Service, asked: readonly (readonly [Flow, Asked])[]): Promise<Told[]> {
  return waitUntil(
    'all answers are stored',
    async () => {
      const told = await service.requests(...asked)
      return told.every(({ stored }) => stored) ? told : undefined
    },
    workMs,
  )
}
