import { expect, test, vi } from 'vitest'
import { OncekeyError } from '../core/errors.js'
import type { KeyClaim, KeyStore } from '../core/store.js'
import { manualClock } from '../testing/manual-clock.js'
import { Withdrawals } from './withdrawals.js'

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))
const away = new OncekeyError('store_unavailable', 'away')

function setup() {
  const clock = manualClock(0)
  /** Whose withdrawal was asked for, and when. */
  const asked: string[] = []
  const answer = vi.fn(async (_key: string): Promise<'done' | 'absent' | 'locked'> => 'absent')
  const limits = new Set<number | undefined>()
  const keyWithdraw: KeyStore['keyWithdraw'] = ({ key }, limit) => {
    asked.push(`${key} at ${clock.monotonic()}`)
    limits.add(limit?.timeoutMs)
    return answer(key)
  }
  const withdrawals = new Withdrawals({ keyWithdraw }, clock)
  const add = (key: string, leaseMs = 15_000) => {
    withdrawals.add({ tenant: 'tenant', scope: 'scope', key, owner: `owner of ${key}`, leaseMs } as KeyClaim)
    return turn()
  }
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50)
      await turn()
    }
  }
  return { clock, asked, answer, limits, add, pass, withdrawals }
}

test('asks four times over several seconds whether a claim arrived after all', async () => {
  const { add, pass, asked } = setup()
  await add('one')
  await pass(20_000)
  expect(asked).toEqual(['one at 0', 'one at 250', 'one at 1000', 'one at 3250'])
})

test('asks for a new one at once while others pause', async () => {
  const { add, pass, asked } = setup()
  await add('one')
  await pass(1_500)
  await add('two')
  await pass(500)
  expect(asked.filter((each) => each.startsWith('two'))).toEqual(['two at 1500', 'two at 1750'])
  await pass(20_000)
  expect(asked.filter((each) => each.startsWith('one')).at(-1)).toBe('one at 3250')
  expect(asked).toHaveLength(8)
})

test('asks about once a second while the store is away, and for all when it is back', async () => {
  const { add, pass, asked, answer, withdrawals } = setup()
  answer.mockRejectedValue(away)
  await add('one')
  await add('two')
  await pass(60_000)
  expect(asked.length).toBeLessThan(130)
  asked.length = 0
  answer.mockResolvedValue('done')
  await pass(1_000)
  expect(asked.map((each) => each.split(' ')[0])).toEqual(['one', 'two'])
  await withdrawals.stop(1_000)
  expect(asked).toHaveLength(2)
})

test('asks again soon for a row that is locked, however long it stays so', async () => {
  const { add, pass, asked, answer } = setup()
  answer.mockResolvedValue('locked')
  await add('one')
  await pass(10_000)
  expect(asked).toHaveLength(41)
  answer.mockResolvedValue('done')
  await pass(10_000)
  expect(asked).toHaveLength(42)
})

test.each(['store_conflict', 'store_timeout'] as const)('one whose row is in trouble (%s) keeps no other waiting', async (code) => {
  const { add, pass, answer } = setup()
  const done: string[] = []
  answer.mockImplementation(async (key) => {
    if (key === 'bad') throw new OncekeyError(code, 'trouble')
    done.push(key)
    return 'done'
  })
  await add('bad')
  for (let number = 0; number < 40; number += 1) await add(`key ${number}`)
  await pass(2_000)
  expect(done).toHaveLength(40)
  expect(answer.mock.calls.filter(([key]) => key === 'bad').length).toBeGreaterThan(1)
})

test('tries once more before the process ends, for as long as it may take', async () => {
  const { add, clock, asked, answer, limits, withdrawals } = setup()
  answer.mockRejectedValue(away)
  for (let number = 0; number < 2_000; number += 1) await add(`key ${number}`)
  asked.length = 0
  limits.clear()
  answer.mockImplementation(async () => {
    clock.advance(20)
    return 'done'
  })
  await withdrawals.stop(1_000)
  expect(asked.length).toBeGreaterThan(40)
  expect(asked.length).toBeLessThanOrEqual(50)
  expect(Math.max(...([...limits] as number[]))).toBe(1_000)
  expect(clock.monotonic()).toBeLessThan(1_100)
})

test('gives a try no more time than a third of the lease', async () => {
  const { add, limits } = setup()
  await add('short', 3_000)
  await add('long', 60_000)
  expect([...limits]).toEqual([1_000, 5_000])
})
