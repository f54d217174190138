import { expect, test } from 'vitest'
import { reply } from '../core/answer.js'
import { createOnce } from '../create-once.js'
import { memoryStore } from '../stores/memory/index.js'
import { idempotencyOf } from './idempotency.js'
import type { HttpRequest } from './request.js'

test('a key that is found later is waited for, also where somebody has replaced the global Promise', async () => {
  const once = createOnce({ store: memoryStore() })
  const layer = idempotencyOf(once, { tenant: 'single', afterFailure: 'rerun', key: async () => 'key-1' })
  const request: HttpRequest = {
    ...{ native: {}, method: 'POST', path: '/orders', query: '' },
    headerLines: () => [],
    body: async () => ({ bytes: new Uint8Array() }),
  }
  const { Promise: original } = globalThis
  globalThis.Promise = class Replaced<T> extends original<T> {} as PromiseConstructor
  try {
    expect(await layer.handle(request, async () => reply(201))).toMatchObject({ kind: 'own' })
    expect(await layer.handle(request, async () => reply(201))).toMatchObject({ kind: 'answer', answer: { status: 201 } })
  } finally {
    globalThis.Promise = original
  }
})

test('requests that come in one turn of the event loop go on one behind the other; one that is alone waits for nobody', async () => {
  const order: string[] = []
  const layer = idempotencyOf(createOnce({ store: memoryStore() }), {
    tenant: (name: string) => {
      order.push(name)
      return 'single'
    },
    afterFailure: 'rerun',
  })
  const send = (name: string) =>
    layer.handle(
      {
        ...{ native: name, method: 'POST', path: '/orders', query: '' },
        headerLines: () => [name],
        body: () => ({ bytes: new Uint8Array() }),
      },
      async () => reply(201),
    )
  const endOfTurn = () => setImmediate(() => order.push('the turn is over'))

  endOfTurn()
  await Promise.all([send('alone'), send('second'), send('third')])
  expect(order).toEqual(['alone', 'the turn is over', 'second', 'third'])

  endOfTurn()
  await send('fourth')
  expect(order[4]).toBe('fourth')
})
