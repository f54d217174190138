import { expect, test } from 'vitest'
import type { Store } from '../../src/core/store.js'
import { boundedStore } from '../../src/engine/bounded-store.js'
import { manualClock } from '../../src/testing/manual-clock.js'

/** A store whose verbs never answer, and that ends no call by itself. */
function silentStore(): Store<unknown> {
  const verbs = new Proxy({}, { get: (_, name) => (name === 'durability' ? 'durable' : () => new Promise(() => {})) })
  return new Proxy(verbs, {
    get: (of, name) => (['upkeep', 'outbox', 'turns', 'steps'].includes(String(name)) ? verbs : Reflect.get(of, name)),
  }) as Store<unknown>
}

const workers: Record<string, (store: Store<unknown>) => Promise<unknown> | undefined> = {
  sweeper: ({ upkeep }) => upkeep?.keysSweep({} as never),
  completer: ({ upkeep }) => upkeep?.keysWaiting({} as never),
  reaper: ({ keyReap }) => keyReap({} as never),
  'reaper, of those that wait': ({ upkeep }) => upkeep?.keysTimeOut({} as never),
  relay: ({ outbox }) => outbox?.jobsTake({} as never),
  'relay, of what is large': ({ outbox }) => outbox?.jobsRead({} as never),
  settler: ({ outbox }) => outbox?.jobsSettle({} as never),
  reconciler: ({ turns }) => turns?.turnTake({} as never),
  'reconciler, while it works': ({ turns }) => turns?.turnKeep({} as never),
  status: ({ keyReadById }) => keyReadById({} as never),
  resolve: ({ steps }) => steps?.keyResolve({} as never),
}

test.each(Object.keys(workers))('a call of the %s ends by itself, whatever the store does', async (name) => {
  const clock = manualClock(0)
  let ended: unknown
  workers[name]?.(boundedStore(silentStore(), clock))?.catch((error: unknown) => {
    ended = error
  })
  clock.advance(14_999)
  await Promise.resolve()
  expect(ended).toBeUndefined()
  clock.advance(1)
  await new Promise((resolve) => setImmediate(resolve))
  expect(ended).toMatchObject({ code: 'store_timeout' })
})
