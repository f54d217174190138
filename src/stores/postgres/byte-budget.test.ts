import { expect, test } from 'vitest'
import { ByteBudget } from './byte-budget.js'

function work() {
  let end = () => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  return { ended, end }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('work that does not fit waits, in order, until there is room', async () => {
  const budget = new ByteBudget(10)
  const begun: string[] = []
  const parts = Object.fromEntries(['one', 'two', 'three'].map((name) => [name, work()]))
  const spend = (name: string, bytes: number) =>
    budget.spend(bytes, 60_000, () => {
      begun.push(name)
      return parts[name]?.ended ?? Promise.resolve()
    })
  const all = [spend('one', 6), spend('two', 6), spend('three', 1)]
  await turn()
  expect(begun).toEqual(['one'])
  parts.one?.end()
  await turn()
  expect(begun).toEqual(['one', 'two', 'three'])
  for (const { end } of Object.values(parts)) end()
  await Promise.all(all)
})

test('work over the limit runs alone, and its bytes are free when it fails', async () => {
  const budget = new ByteBudget(10)
  const large = work()
  const failed = budget.spend(50, 60_000, async () => {
    await large.ended
    throw new Error('failed')
  })
  let isBegun = false
  const small = budget.spend(1, 60_000, async () => {
    isBegun = true
  })
  await turn()
  expect(isBegun).toBe(false)
  large.end()
  await expect(failed).rejects.toThrow('failed')
  await small
})

test('work that waits for too long is told store_timeout, and never begins', async () => {
  const budget = new ByteBudget(10)
  const large = work()
  const first = budget.spend(10, 60_000, () => large.ended)
  let isBegun = false
  const late = budget.spend(1, 1, async () => {
    isBegun = true
  })
  await expect(late).rejects.toMatchObject({ code: 'store_timeout' })
  large.end()
  await first
  expect(isBegun).toBe(false)
})
