import assert from 'node:assert/strict'
import type { TurnStore } from '../../core/store.js'
import { type StoreCase, second } from './store-case.js'

/** Skipped for stores without turns. */
function turnCase(name: string, run: (harness: { turns: TurnStore; name: string; advance: (ms: number) => unknown }) => Promise<void>) {
  return {
    name,
    async run({ store, advance }) {
      if (store.turns) await run({ turns: store.turns, name: `turn-${crypto.randomUUID()}`, advance })
    },
  } satisfies StoreCase
}

const turnMs = 600 * second
const aTurn = (name: string, early = false) => ({ name, holder: crypto.randomUUID(), turnMs, early })

export const turnCases: StoreCase[] = [
  turnCase('gives a turn to one of many that want it, and to the next when it is given back', async ({ turns, name }) => {
    const wanted = Array.from({ length: 20 }, () => aTurn(name))
    const taken = await Promise.all(wanted.map((turn) => turns.turnTake(turn)))
    assert.equal(taken.filter(Boolean).length, 1)
    const holder = wanted[taken.findIndex(Boolean)]?.holder as string
    assert.equal(await turns.turnTake(aTurn(name, true)), undefined)
    await turns.turnEnd({ name, holder, nextInMs: 0 })
    assert.ok(await turns.turnTake(aTurn(name)))
  }),

  turnCase('gives no turn before it is due, unless it is taken early', async ({ turns, name, advance }) => {
    const first = aTurn(name)
    await turns.turnTake(first)
    await turns.turnEnd({ ...first, nextInMs: 60 * second })
    assert.equal(await turns.turnTake(aTurn(name)), undefined)
    await advance(50 * second)
    assert.equal(await turns.turnTake(aTurn(name)), undefined)
    const early = aTurn(name, true)
    assert.ok(await turns.turnTake(early))
    await turns.turnEnd({ ...early, nextInMs: 60 * second })
    await advance(61 * second)
    assert.ok(await turns.turnTake(aTurn(name)))
  }),

  turnCase(
    'gives the turn of a holder that is gone to another, and the first one has no say any more',
    async ({ turns, name, advance }) => {
      const [gone, next] = [aTurn(name), aTurn(name)]
      await turns.turnTake(gone)
      await advance(turnMs - second)
      assert.equal(await turns.turnTake(next), undefined)
      await advance(2 * second)
      assert.ok(await turns.turnTake(next))
      assert.equal(await turns.turnKeep(gone), false)
      await turns.turnEnd({ ...gone, nextInMs: 0 })
      assert.equal(await turns.turnTake(aTurn(name)), undefined)
      assert.equal(await turns.turnKeep(next), true)
    },
  ),

  turnCase('lets a turn last for as long as it is kept', async ({ turns, name, advance }) => {
    const turn = aTurn(name)
    await turns.turnTake(turn)
    for (let times = 0; times < 3; times += 1) {
      await advance(turnMs - second)
      assert.equal(await turns.turnKeep(turn), true)
    }
    await advance(turnMs - second)
    assert.equal(await turns.turnTake(aTurn(name)), undefined)
  }),

  turnCase('does not confuse turns of two names, and tells its own time', async ({ turns, name, advance }) => {
    const [one, other] = [await turns.turnTake(aTurn(name)), await turns.turnTake(aTurn(`${name}-other`))]
    assert.ok(one && other)
    await advance(turnMs + second)
    const later = await turns.turnTake(aTurn(name))
    assert.ok(later && later.now >= one.now)
  }),
]
