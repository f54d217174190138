import { expect, test } from 'vitest'
import { OncekeyError } from '../core/errors.js'
import type { KeyClaim, Limit, Verdict } from '../core/store.js'
import { memoryStore } from '../stores/memory/index.js'
import { manualClock } from '../testing/manual-clock.js'
import { aClaim } from '../testing/store-cases/store-case.js'
import { claimKey } from './claim.js'
import type { EngineParts } from './parts.js'
import { RunningWork } from './running-work.js'
import { Withdrawals } from './withdrawals.js'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** A store that hangs, and then executes what was sent to it. */
function setup({ most }: { most?: number } = {}) {
  const clock = manualClock()
  const memory = memoryStore({ clock })
  let isHanging = true
  const sent: { readonly claim: KeyClaim; readonly execute: () => void }[] = []
  const store = {
    ...memory,
    keyClaim(claim: KeyClaim, limit?: Limit): Promise<Verdict> {
      if (!isHanging) return memory.keyClaim(claim, limit)
      // As the Postgres store does at the limit: the call ends, and the server may execute it later.
      return new Promise((_, reject) => {
        const cancel = clock.schedule(() => reject(new OncekeyError('store_timeout', 'too late')), limit?.timeoutMs ?? 1_000)
        const execute = () => void memory.keyClaim(claim).then(cancel)
        sent.push({ claim, execute })
      })
    },
    keyWithdraw: async (...[claim]: Parameters<typeof memory.keyWithdraw>) => {
      if (isHanging) throw new OncekeyError('store_timeout', 'it hangs')
      return memory.keyWithdraw(claim)
    },
  }
  const withdrawals = most === undefined ? new Withdrawals(store, clock) : new Withdrawals(store, clock, most)
  const parts = {
    store,
    clock,
    report() {},
    storeTimeoutMs: 1_000,
    running: new RunningWork(clock),
    withdrawals,
    random: { uuid: () => crypto.randomUUID(), fraction: () => 0.5 },
  } as unknown as EngineParts
  const claims: KeyClaim[] = []
  const request = () => {
    const claim = aClaim({ afterFailure: 'park', leaseMs: 60_000 })
    claims.push(claim)
    return claimKey(parts, claim).then(
      ({ verdict }) => verdict.kind,
      (error: OncekeyError) => (error.neverSent ? 'never sent' : error.code),
    )
  }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50)
      await turn()
    }
  }
  const recover = async () => {
    isHanging = false
    for (const { execute } of sent) execute()
    await turn()
  }
  const left = async () => (await Promise.all(claims.map((claim) => memory.keyRead(claim)))).filter((record) => record !== undefined)
  return { request, pass, recover, left, sent }
}

test('no more claims are sent to a store that hangs than can be withdrawn, and all of those are', async () => {
  const { request, pass, recover, left, sent } = setup({ most: 10 })
  const told: Promise<string>[] = []
  for (let second = 0; second < 3; second += 1) {
    for (let count = 0; count < 25; count += 1) told.push(request())
    await turn()
    await pass(1_100)
  }
  expect(sent).toHaveLength(10)
  const ends = await Promise.all(told)
  expect(ends.filter((end) => end === 'store_timeout')).toHaveLength(75)
  await recover()
  await pass(10_000)
  expect(await left()).toEqual([])
})

test('a claim that found no place is sent as soon as there is one', async () => {
  const { request, pass, recover, sent } = setup({ most: 2 })
  const first = [request(), request()]
  await pass(1_050)
  expect(await Promise.all(first)).toEqual(['store_timeout', 'store_timeout'])
  const third = request()
  await turn()
  expect(sent).toHaveLength(2)
  await recover()
  await pass(1_000)
  expect(await third).toBe('execute')
})

test('thousands of requests may wait for answers at the same time', async () => {
  const { request, sent } = setup()
  for (let count = 0; count < 5_000; count += 1) void request()
  await turn()
  expect(sent).toHaveLength(5_000)
})
