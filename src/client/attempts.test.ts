import { describe, expect, test } from 'vitest'
import { post, knownNetwork as setup, url } from '../../test/clients/known-network.js'
import { manualClock } from '../testing/manual-clock.js'
import { idempotentFetch } from './idempotent-fetch.js'

const offline = new TypeError('fetch failed')
const answer = (status: number, headers: Record<string, string>) => new Response('{}', { status, headers })
const codeOf = (code: string) => expect.objectContaining({ name: 'IdempotentFetchError', code })

describe('what is tried again', () => {
  test.each([[offline], [409], [425], [429], [500], [502], [503], [504], [520]])('%s', async (reply) => {
    const { send, sent } = setup([reply, 201])
    expect(await send(url, post)).toMatchObject({ status: 201, attempts: 2 })
    expect(new Set(sent.map(({ headers }) => headers.get('idempotency-key'))).size).toBe(1)
    expect(sent.map(({ body }) => body)).toEqual([post.body, post.body])
  })

  test.each([200, 201, 204, 302, 400, 401, 402, 403, 404, 408, 410, 413, 422, 501, 505])('not %d', async (status) => {
    const { send, sent } = setup([new Response(null, { status })])
    expect(await send(url, post)).toMatchObject({ status, attempts: 1, replayed: false })
    expect(sent).toHaveLength(1)
    expect(await send.pending()).toEqual([])
  })

  test.each([409, 429, 500, 503])('not a replay of %d: what is stored stays', async (status) => {
    const { send } = setup([answer(status, { 'idempotent-replayed': 'true' })])
    expect(await send(url, post)).toMatchObject({ status, attempts: 1, replayed: true })
    expect(await send.pending()).toEqual([])
  })

  test('not what a server of the kind of Stripe says is final', async () => {
    const { send } = setup([answer(500, { 'stripe-should-retry': 'false' })])
    expect(await send(url, post)).toMatchObject({ status: 500, attempts: 1 })
  })

  test('a 202 that says to come back, but not one with a place to ask at', async () => {
    const inProgress = setup([answer(202, { 'retry-after': '1' }), 201])
    expect(await inProgress.send(url, post)).toMatchObject({ status: 201, attempts: 2 })
    const accepted = setup([answer(202, { 'retry-after': '1', location: '/operations/1' })])
    expect(await accepted.send(url, post)).toMatchObject({ status: 202, attempts: 1 })
  })

  test('which 5xx, by retryOn, and nothing below', async () => {
    const retryOn = (status: number) => status === 503 || status < 500
    expect(await setup([503, 500, 201], { retryOn }).send(url, post)).toMatchObject({ status: 500, attempts: 2 })
    expect(await setup([422, 201], { retryOn }).send(url, post)).toMatchObject({ status: 422, attempts: 1 })
  })

  test('other methods go straight through, without a key', async () => {
    const { send, sent } = setup([503])
    const response = await send(url)
    expect(response).toMatchObject({ status: 503, attempts: 1, replayed: false, key: undefined })
    expect(sent[0]?.headers.has('idempotency-key')).toBe(false)
    const patched = setup([503, 200])
    expect(await patched.send(url, { ...post, method: 'patch' })).toMatchObject({ attempts: 2 })
    const put = setup([503, 200], { methods: ['put'] })
    expect(await put.send(url, { ...post, method: 'PUT' })).toMatchObject({ attempts: 2 })
  })
})

describe('how long', () => {
  test('waits as the server asks, else longer each time', async () => {
    const { send, waits } = setup([offline, 503, answer(503, { 'retry-after': '20' }), 201])
    await send(url, post)
    expect(waits).toEqual([250, 500, 22_500])
  })

  test('gives up after the last attempt, with what came last', async () => {
    const { send, sent } = setup([offline, 503], { maxAttempts: 3 })
    expect(await send(url, post)).toMatchObject({ status: 503, attempts: 3 })
    expect(sent).toHaveLength(3)
    const lost = setup([503, offline], { maxAttempts: 3 })
    await expect(lost.send(url, post)).rejects.toEqual(codeOf('no_answer'))
    const [kept] = await lost.send.pending()
    await expect(lost.send(url, post)).rejects.toMatchObject({ cause: offline, key: expect.not.stringContaining(kept?.key as string) })
    expect(await lost.send.pending()).toHaveLength(2)
  })

  test('does not wait for a moment that is past the deadline', async () => {
    const { send, sent, waits } = setup([answer(503, { 'retry-after': '60' })], { deadline: '1m' })
    expect(await send(url, post)).toMatchObject({ status: 503, attempts: 1 })
    expect([sent.length, waits]).toEqual([1, []])
  })

  test('sends nothing past the deadline, whatever the waits are', async () => {
    const { send, sent, clock } = setup([503], { maxAttempts: 1_000, deadline: '30s', firstDelay: 1_000 })
    const start = clock.now()
    expect(await send(url, post)).toMatchObject({ status: 503 })
    expect(sent.length).toBeGreaterThan(5)
    expect(Math.max(...sent.map(({ at }) => at - start))).toBeLessThan(30_000)
  })

  test('nor after a wait that took longer than it should', async () => {
    const { send, sent, clock } = setup([503], { deadline: '30s', onWait: () => clock.advance(60_000) })
    expect(await send(url, post)).toMatchObject({ status: 503, attempts: 1 })
    expect(sent).toHaveLength(1)
  })

  test('gives each attempt its time, and the last one what is left', async () => {
    const { send, limits } = setup([answer(503, { 'retry-after': '40' }), 201], { attemptTimeout: '20s', deadline: '1m' })
    await send(url, post)
    expect(limits).toEqual([20_000, 15_000])
  })

  test('an attempt that hangs is given up, and tried again', async () => {
    const clock = manualClock()
    let calls = 0
    const fetch = (_: unknown, { signal }: RequestInit = {}) => {
      calls += 1
      if (calls > 1) return Promise.resolve(new Response(null, { status: 201 }))
      return new Promise<Response>((_resolve, reject) => {
        // The wait that follows is over as soon as it begins.
        signal?.addEventListener('abort', () => {
          reject(signal.reason)
          setImmediate(() => clock.advance(10_000))
        })
        clock.advance(30_000)
      })
    }
    expect(await idempotentFetch({ clock, fetch })(url, post)).toMatchObject({ status: 201, attempts: 2 })
  })
})

describe('an abort', () => {
  const reason = new Error('the page was left')

  test('before the start sends nothing and keeps nothing', async () => {
    const { send, sent } = setup([201])
    await expect(send(url, { ...post, signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    expect([sent, await send.pending()]).toEqual([[], []])
  })

  test('between attempts ends the waiting, and the request can be resumed', async () => {
    const controller = new AbortController()
    const { send, sent } = setup([503, 201], { onWait: () => controller.abort(reason) })
    await expect(send(url, { ...post, signal: controller.signal })).rejects.toBe(reason)
    expect(sent).toHaveLength(1)
    expect(await send.resume()).toEqual([expect.objectContaining({ kind: 'answered' })])
  })

  test('during an attempt reaches fetch', async () => {
    const controller = new AbortController()
    const fetch = (_: unknown, { signal }: RequestInit = {}) =>
      new Promise<Response>((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(new Error('aborted, in the words of fetch')))
        controller.abort(reason)
      })
    const send = idempotentFetch({ fetch })
    await expect(send(new Request(url, { ...post, signal: controller.signal }))).rejects.toBe(reason)
    expect(await send.pending()).toHaveLength(1)
  })
})

test('an environment without streams of bodies gets its answer, too', async () => {
  const whole = Object.assign(new Response('{}', { status: 201 }), { clone: () => ({ body: undefined }) as unknown as Response })
  const response = await idempotentFetch({ fetch: async () => whole })(url, post)
  expect([response.attempts, await response.text()]).toEqual([1, '{}'])
})
