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
    const begun = await layer.begin(request)
    expect(begun.kind === 'run' && (await begun.attempt.answered(reply(201)))).toMatchObject({ kind: 'own' })
    expect(await layer.begin(request)).toMatchObject({ kind: 'answer', answer: { status: 201 } })
  } finally {
    globalThis.Promise = original
  }
})
