import { describe, expect, test } from 'vitest'
import { post, knownNetwork as setup, url } from '../../test/clients/known-network.js'
import { idempotentFetch } from './idempotent-fetch.js'
import type { IdempotentFetchOptions } from './options.js'
import type { PendingRequest } from './pending-request.js'
import { memoryStorage } from './storages/memory-storage.js'

const offline = new TypeError('fetch failed')
const answer = (status: number, headers: Record<string, string>) => new Response('{}', { status, headers })
const raise = (error: Error): never => {
  throw error
}
const codeOf = (code: string) => expect.objectContaining({ name: 'IdempotentFetchError', code })

describe('the key', () => {
  test('is quoted, or bare', async () => {
    const quoted = setup([201])
    const { key } = await quoted.send(url, post)
    expect(quoted.sent[0]?.headers.get('idempotency-key')).toBe(`"${key}"`)
    const bare = setup([201], { quoted: false })
    const { key: bareKey } = await bare.send(url, post)
    expect(bare.sent[0]?.headers.get('idempotency-key')).toBe(bareKey)
  })

  test.each(['order-1', '"order-1"'])('may be the caller’s own: %s', async (given) => {
    const { send, sent } = setup([503, 201])
    expect(await send(url, { ...post, headers: { 'Idempotency-Key': given } })).toMatchObject({ key: 'order-1' })
    expect(sent.map(({ headers }) => headers.get('idempotency-key'))).toEqual([given, given])
  })

  test('is never dropped without a word', async () => {
    const { send, sent } = setup([201])
    await expect(send(url, { ...post, mode: 'no-cors' })).rejects.toEqual(codeOf('key_not_sendable'))
    expect(sent).toEqual([])
  })
})

describe('what is kept', () => {
  test('the request, before it is sent', async () => {
    const { send, sent } = setup([201])
    const headers = { 'content-type': 'application/json' }
    const { key } = await send(url, { ...post, headers, credentials: 'include' })
    expect(sent[0]?.kept).toEqual([
      {
        id: key,
        key,
        owner: 'single',
        createdAt: expect.any(Number),
        url,
        method: 'POST',
        headers: [
          ['content-type', 'application/json'],
          ['idempotency-key', `"${key}"`],
        ],
        body: post.body,
        settings: { credentials: 'include' },
      },
    ])
  })

  test('or else nothing is sent', async () => {
    const full = new Error('QuotaExceededError')
    const memory = memoryStorage()
    // It was written all the same, and nobody heard of it.
    const put = async (request: PendingRequest) => {
      await memory.put(request)
      throw full
    }
    const { send, sent } = setup([201], { storage: { ...memory, put } })
    await expect(send(url, post)).rejects.toMatchObject({ code: 'not_kept', cause: full })
    expect([await send.resume(), sent]).toEqual([[], []])
  })

  test('in memory, for as long as it can be sent: it may be that nobody ever comes for it', async () => {
    const { send, clock } = setup([offline], { maxAttempts: 1, maxAge: '1h' })
    const lose = (body: string) => expect(send(url, { ...post, body })).rejects.toEqual(codeOf('no_answer'))
    const kept = async () => (await send.pending()).map(({ body }) => body)
    await lose('first')
    clock.advance(3_600_000)
    await lose('second')
    expect(await kept()).toEqual(['first', 'second'])
    clock.advance(1)
    await lose('third')
    expect(await kept()).toEqual(['second', 'third'])
  })

  test('no secrets: prepare adds them to each attempt anew', async () => {
    let token = 0
    const prepare: IdempotentFetchOptions['prepare'] = ({ headers }) => {
      token += 1
      headers.set('authorization', `Bearer ${token}`)
    }
    const { send, sent } = setup([503, 503, 201], { maxAttempts: 2, prepare, neverPersist: ['X-Device'] })
    const secrets = { authorization: 'Bearer 0', cookie: 'a=b', 'x-api-key': 'c', 'x-device': 'd', 'x-shop': 'e' }
    await send(url, { ...post, headers: secrets })
    const [kept] = await send.pending()
    expect(kept?.headers.map(([name]) => name)).toEqual(['idempotency-key', 'x-shop'])
    await send.resume()
    expect(sent.map(({ headers }) => headers.get('authorization'))).toEqual(['Bearer 1', 'Bearer 2', 'Bearer 3'])
    expect(sent.map(({ headers }) => headers.get('x-device'))).toEqual(['d', 'd', null])
  })

  test.each([
    ['throws', () => raise(new Error('no'))],
    ['rejects', () => Promise.reject(new Error('no'))],
  ])('an answer is not lost because its request cannot be removed: the storage %s', async (_, remove) => {
    const storage = { ...memoryStorage(), delete: remove }
    const { send } = setup([201], { storage })
    expect(await send(url, post)).toMatchObject({ status: 201 })
  })

  test('a request that prepare could not make ready was not sent, and is not kept', async () => {
    const prepare = () => Promise.reject(new Error('no token'))
    const { send, sent } = setup([201], { prepare })
    await expect(send(url, post)).rejects.toThrow('no token')
    expect([sent, await send.pending()]).toEqual([[], []])
  })

  test.each([302, 303, 308, 401, 403, 404, 405, 407, 408, 421, 423])(
    'a %d after an attempt that may have arrived decides nothing: the request stays',
    async (status) => {
      const { send } = setup([offline, status, 201])
      expect(await send(url, post)).toMatchObject({ status, attempts: 2 })
      expect(await send.resume()).toEqual([expect.objectContaining({ kind: 'answered' })])
      expect(await send.pending()).toEqual([])
    },
  )

  test.each([303, 403, 404])('a replay of %d does decide it', async (status) => {
    const { send } = setup([offline, answer(status, { 'idempotent-replayed': 'true' })])
    expect(await send(url, post)).toMatchObject({ status, attempts: 2, replayed: true })
    expect(await send.pending()).toEqual([])
  })
})

describe('a redirect', () => {
  const seen = (properties: Partial<Response>) =>
    Object.defineProperties(
      new Response('<h1>Log in</h1>'),
      Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, { value }])),
    )
  // As browsers show one that they do not follow, and as a fetch shows one that it did.
  const hidden = () => seen({ type: 'opaqueredirect', status: 0 })
  const followed = () => seen({ redirected: true })

  test.each([
    ['that the browser hides', hidden],
    ['that was followed all the same', followed],
  ])('%s is never taken for the answer, and the request stays', async (_, page) => {
    for (const before of [[], [offline]]) {
      const replies = [...before.map((error) => () => raise(error)), page, page, () => new Response('{}', { status: 201 })]
      const send = idempotentFetch({ fetch: async () => (replies.shift() as () => Response)(), firstDelay: 1, owner: 'single' })
      await expect(send(url, post)).rejects.toMatchObject({ code: 'redirected', key: expect.any(String) })
      expect(await send.resume()).toMatchObject([{ kind: 'unanswered', error: { code: 'redirected' } }])
      expect(await send.resume()).toMatchObject([{ kind: 'answered', response: { status: 201 } }])
    }
  })

  test('that the caller wants followed is an answer, but not after an attempt that may have arrived', async () => {
    const replies = [followed, () => raise(offline), followed]
    const send = idempotentFetch({ fetch: async () => (replies.shift() as () => Response)(), firstDelay: 1 })
    const follow = { ...post, redirect: 'follow' as const }
    expect(await send(url, follow)).toMatchObject({ status: 200, attempts: 1 })
    expect(await send.pending()).toEqual([])
    expect(await send(url, follow)).toMatchObject({ status: 200, attempts: 2 })
    expect(await send.pending()).toHaveLength(1)
  })

  test.each([
    ['an address', undefined, () => [url, post]],
    ['a Request', undefined, () => [new Request(url, post)]],
    ['a caller who does not care', undefined, () => [url, { ...post, redirect: undefined }]],
    ['a caller who does', 'follow', () => [url, { ...post, redirect: 'follow' }]],
    ['a Request that does', 'error', () => [new Request(url, { ...post, redirect: 'error' })]],
  ])('is not followed with the key unless the caller says so: %s', async (_, own, call) => {
    const asked: unknown[] = []
    const fetch = async (_input: unknown, init: RequestInit = {}) => {
      asked.push(init.redirect)
      return new Response('{}', { status: asked.length === 1 ? 503 : 201 })
    }
    const send = idempotentFetch({ fetch, owner: 'single', maxAttempts: 1 })
    await send(...(call() as Parameters<typeof send>))
    await send.resume()
    expect(asked).toEqual([own ?? 'manual', own ?? 'manual'])
  })
})

describe('resume', () => {
  test('sends the same again, oldest first, and says what came of each', async () => {
    const { send, sent, clock } = setup([offline, offline, 201, offline, 401], { maxAttempts: 1 })
    for (const body of ['first', 'second']) {
      await expect(send(url, { ...post, body })).rejects.toEqual(codeOf('no_answer'))
      clock.advance(1_000)
    }
    expect(await send.resume()).toEqual([
      { kind: 'answered', request: expect.objectContaining({ body: 'first' }), response: expect.objectContaining({ status: 201 }) },
      { kind: 'unanswered', request: expect.objectContaining({ body: 'second' }), error: codeOf('no_answer') },
    ])
    expect(await send.resume()).toEqual([
      { kind: 'unanswered', request: expect.objectContaining({ body: 'second' }), response: expect.objectContaining({ status: 401 }) },
    ])
    expect(sent.map(({ body }) => body)).toEqual(['first', 'second', 'first', 'second', 'second'])
    const [first, second, ...others] = sent.map(({ headers }) => headers.get('idempotency-key'))
    expect(others).toEqual([first, second, second])
  })

  test('does not send what the server may have forgotten; it is told until it is forgotten here', async () => {
    const { send, sent, clock } = setup([offline], { maxAttempts: 1 })
    await expect(send(url, post)).rejects.toEqual(codeOf('no_answer'))
    clock.advance(23 * 3_600_000)
    expect(await send.resume()).toEqual([expect.objectContaining({ kind: 'unanswered' })])
    clock.advance(1)
    const [old] = await send.resume()
    expect(old).toEqual({ kind: 'too-old', request: expect.objectContaining({ body: post.body }) })
    expect(await send.resume()).toEqual([old])
    expect(sent).toHaveLength(2)
    await send.forget(old?.request.id as string)
    expect(await send.resume()).toEqual([])
  })

  test('nor what was kept by a clock that was far ahead', async () => {
    const { send, clock, storage } = setup([201])
    const request = {
      id: 'i',
      key: 'k',
      owner: 'single',
      createdAt: clock.now() + 86_400_000,
      url,
      method: 'POST',
      headers: [],
      settings: {},
    }
    await storage.put(request)
    expect(await send.resume()).toEqual([{ kind: 'too-old', request }])
  })

  test('nor does a retry, after a long sleep in the middle', async () => {
    const { send, sent, clock } = setup([503], { deadline: '7d', onWait: () => clock.advance(86_400_000) })
    await expect(send(url, post)).rejects.toEqual(codeOf('too_old'))
    expect(sent).toHaveLength(1)
    expect(await send.pending()).toHaveLength(1)
  })

  test('leaves alone what is under way', async () => {
    let arrive = (_: Response) => {}
    const fetch = () =>
      new Promise<Response>((resolve) => {
        arrive = resolve
      })
    const send = idempotentFetch({ fetch, owner: 'single' })
    const under = send(url, post)
    while ((await send.pending()).length === 0);
    expect(await send.resume()).toEqual([])
    arrive(new Response('{}', { status: 201 }))
    expect(await under).toMatchObject({ status: 201, attempts: 1 })
  })

  test('does not send what another call has answered in the meantime', async () => {
    let letGo = () => {}
    const held = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const sent: unknown[] = []
    const fetch = async (_: unknown, { body }: RequestInit = {}) => {
      sent.push(body)
      if (sent.length <= 2) throw offline
      if (body === 'first') await held
      return new Response('{}', { status: 201 })
    }
    const send = idempotentFetch({ fetch, owner: 'single', maxAttempts: 1 })
    for (const body of ['first', 'second']) await expect(send(url, { ...post, body })).rejects.toEqual(codeOf('no_answer'))
    const both = send.resume()
    expect(await send.resume()).toMatchObject([{ kind: 'answered', request: { body: 'second' } }])
    letGo()
    expect(await both).toMatchObject([{ kind: 'answered', request: { body: 'first' } }])
    expect(sent).toEqual(['first', 'second', 'first', 'second'])
  })

  test('ends when it is told to', async () => {
    const { send } = setup([offline], { maxAttempts: 1 })
    await expect(send(url, post)).rejects.toEqual(codeOf('no_answer'))
    await expect(send.resume({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough')
    expect(await send.pending()).toHaveLength(1)
  })
})

describe('the owner of a request', () => {
  type User = string | null | undefined
  const lose = async (user: User, options: IdempotentFetchOptions = {}) => {
    const session: { user: User } = { user }
    const network = setup([offline, 201], { maxAttempts: 1, owner: () => session.user, ...options })
    await expect(network.send(url, post)).rejects.toEqual(codeOf('no_answer'))
    return { ...network, session }
  }

  test.each<[kept: User, now: User]>([
    ['alice', 'bob'],
    ['alice', undefined],
    ['alice', null],
    ['alice', ''],
    [undefined, 'bob'],
    [null, 'bob'],
  ])('a request of %s is neither sent nor shown for %s, and sent when its owner is back', async (kept, now) => {
    const { send, sent, session } = await lose(kept)
    session.user = now
    expect(await send.resume()).toEqual([{ kind: 'other-owner', request: expect.objectContaining({ body: post.body }) }])
    expect([sent.length, await send.pending()]).toEqual([1, []])
    session.user = kept
    expect(await send.pending()).toHaveLength(1)
    expect(await send.resume()).toMatchObject([{ kind: 'answered', response: { status: 201 } }])
  })

  test('one that an earlier release kept, which knew no owners, is not sent for a user', async () => {
    const { send, sent, storage, clock } = setup([201], { owner: 'alice' })
    await storage.put({ id: 'i', key: 'k', createdAt: clock.now(), url, method: 'POST', headers: [], settings: {} })
    expect(await send.resume()).toMatchObject([{ kind: 'other-owner', request: { id: 'i' } }])
    expect(sent).toEqual([])
  })

  test('that changes between two attempts ends them: the request stays, for the one who made it', async () => {
    const session = { user: 'alice' }
    const onWait = () => {
      session.user = 'bob'
    }
    const { send, sent } = setup([offline, 201], { owner: async () => session.user, onWait })
    await expect(send(url, post)).rejects.toEqual(codeOf('other_owner'))
    session.user = 'alice'
    expect([sent.length, await send.pending()]).toMatchObject([1, [{ owner: 'alice' }]])
  })

  test('that changes while prepare() is at work, or the body is read, ends them before anything is sent or kept', async () => {
    const session = { user: 'alice' }
    const prepare = async () => {
      session.user = 'bob'
    }
    const prepared = setup([201], { owner: () => session.user, prepare })
    await expect(prepared.send(url, post)).rejects.toEqual(codeOf('other_owner'))
    session.user = 'alice'
    const read = setup([201], { owner: () => session.user })
    const body = new Blob(['slow'])
    const sending = read.send(url, { ...post, body })
    session.user = 'bob'
    await expect(sending).rejects.toEqual(codeOf('other_owner'))
    for (const { sent, storage } of [prepared, read]) expect([sent, await storage.list()]).toEqual([[], []])
  })

  test('who logs out can forget what is left of theirs', async () => {
    const { send, storage, session } = await lose('alice')
    session.user = 'bob'
    expect(await send.pending()).toEqual([])
    session.user = 'alice'
    for (const { id } of await send.pending()) await send.forget(id)
    expect(await storage.list()).toEqual([])
  })

  test('must be named for a storage and for resume(), by a string', async () => {
    expect(() => idempotentFetch({ storage: memoryStorage() })).toThrow(expect.objectContaining({ code: 'option_invalid' }))
    // Without a storage, too, the next user may have logged in when kept requests are sent again.
    await expect(idempotentFetch({ fetch: async () => raise(offline) }).resume()).rejects.toEqual(codeOf('option_invalid'))
    const { send, sent } = setup([201], { owner: (() => 7) as never })
    await expect(send(url, post)).rejects.toEqual(codeOf('option_invalid'))
    expect(sent).toEqual([])
  })
})

describe('the response', () => {
  test('is the one that fetch made', async () => {
    const { send } = setup([answer(201, { location: '/charges/1' })])
    const response = await send(url, post)
    expect(response).toBeInstanceOf(Response)
    expect(response.headers.get('location')).toBe('/charges/1')
    expect(await response.clone().text()).toBe('{}')
    expect(await response.json()).toEqual({})
  })
})

describe('options', () => {
  test.each([
    [{ maxAttempts: 0 }, 'maxAttempts'],
    [{ maxAttempts: 1.5 }, 'maxAttempts'],
    [{ deadline: 0 }, 'deadline'],
    [{ maxAge: 'long' }, 'maxAge'],
    [{ attemptTimeout: Number.NaN }, 'attemptTimeout'],
    [{ firstDelay: '5 s' }, 'firstDelay'],
    [{ maxDelay: Number.POSITIVE_INFINITY }, 'maxDelay'],
  ])('%j is refused at once', (options, name) => {
    expect(() => idempotentFetch(options as IdempotentFetchOptions)).toThrow(name)
  })

  test('a random.uuid() that repeats itself is an error, and nothing is sent twice', async () => {
    const { send, sent } = setup([201], { random: { uuid: () => 'same', fraction: () => 0.5 } })
    const first = send(url, post)
    await expect(send(url, post)).rejects.toMatchObject({ code: 'option_invalid', message: expect.stringContaining('random.uuid()') })
    expect([await first, sent]).toMatchObject([{ status: 201 }, [{}]])
  })

  test('that are undefined have their defaults', async () => {
    const { send } = setup([503, 201], { deadline: undefined, storage: undefined } as never)
    expect(await send(url, post)).toMatchObject({ status: 201, attempts: 2 })
  })
})
