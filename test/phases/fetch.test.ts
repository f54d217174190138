import fc from 'fast-check'
import type pg from 'pg'
import { expect, expectTypeOf, test } from 'vitest'
import { idempotency, runOf } from '../../src/adapters/node.js'
import { type Fetched, type FetchOptions, type OperationRun, reply } from '../../src/index.js'
import { meaningOf } from '../../src/phases/fetch-call.js'
import { listen } from '../adapters/listen.js'
import { onError } from '../adapters/node-service.js'
import { useDatabase } from '../support/postgres/database.js'
import { otherSide, status } from './other-side.js'
import { setup } from './setup.js'

const database = useDatabase()

type Run = OperationRun<pg.PoolClient>

/** An operation with this body, another side, and attempts at one key. */
async function withBody(body: (run: Run, url: string, number: number) => Promise<unknown>) {
  const bundle = await setup(database)
  const other = await otherSide()
  const meanings: unknown[] = []
  let attempts = 0
  const operation = bundle.newOnce().operation('fetches', {}, async (run) => {
    attempts += 1
    return reply(200, (await body(run, other.url, attempts)) ?? null)
  })
  return { ...bundle, other, meanings, attempt: () => operation.run({ tenant: bundle.tenant, key: 'k', input: null }) }
}

const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"cents":100}' }

test('sends the derived key with every request that may change something, and with no other', async () => {
  const own: (string | undefined)[] = []
  const { other, attempt } = await withBody(async (run, url) => {
    for (const method of ['POST', 'PATCH', 'PUT', 'DELETE', 'GET', 'HEAD', 'OPTIONS']) {
      await run.fetch(method, `${url}/things?a=1`, { method })
      own.push(['GET', 'HEAD', 'OPTIONS'].includes(method) ? undefined : run.key(method))
    }
  })
  expect((await attempt()).kind).toBe('executed')
  expect(other.keys()).toEqual(own)
  expect(new Set(own).size).toBe(5)
})

test('gives status and body, the same on a resumed run, which sends nothing again', async () => {
  const results: unknown[] = []
  const { other, attempt, steps } = await withBody(async (run, url, number) => {
    results.push([await run.fetch('json', url, post), await run.fetch('text', url, post), await run.fetch('nothing', url, post)])
    if (number === 1) throw new Error('after them')
  })
  other.answer = (response, _, number) => {
    if (number === 1) response.writeHead(201, { 'content-type': 'application/problem+json' }).end('{"id":"ch_1"}')
    else if (number === 2) response.end('plain')
    else response.writeHead(204).end()
  }
  await expect(attempt()).rejects.toThrow('after them')
  await attempt()
  expect(results[0]).toEqual([
    { status: 201, body: { id: 'ch_1' } },
    { status: 200, body: 'plain' },
    { status: 204, body: null },
  ])
  expect(results[1]).toEqual(results[0])
  expect(other.arrived.map(({ body }) => body)).toEqual(Array(3).fill(post.body))
  expect((await steps()).map(({ name, kind }) => [name, kind])).toEqual([
    ['json', 'call'],
    ['text', 'call'],
    ['nothing', 'call'],
  ])
})

test('resends with the same key when the outcome is unknown', async () => {
  const { other, attempt } = await withBody((run, url) => run.fetch('charge', url, post))
  other.answer = (response, _, number) => {
    if (number === 1) response.destroy()
    else if (number === 2) response.writeHead(503).end()
    else response.end('done')
  }
  await expect(attempt()).rejects.toThrow('fetch failed')
  await expect(attempt()).rejects.toMatchObject({ code: 'call_failed', message: expect.stringContaining('was answered 503') })
  expect((await attempt()).kind).toBe('executed')
  expect(new Set(other.keys()).size).toBe(1)
  expect(other.arrived).toHaveLength(3)
})

test('a refusal is final and the same in every attempt, and says nothing of what is secret in an address', async () => {
  const codes: unknown[] = []
  const { other, attempt } = await withBody(async (run, url, number) => {
    await run.fetch('charge', `${url}/charges?token=secret`, post).catch((error) => codes.push([error.code, error.message]))
    if (number === 1) throw new Error('after it')
  })
  other.answer = status(402)
  await expect(attempt()).rejects.toThrow('after it')
  expect((await attempt()).kind).toBe('executed')
  const message = `The other side refused the call 'charge' for good: POST ${other.url}/charges was answered 402.`
  expect(codes).toEqual(Array(2).fill(['call_refused', message]))
  expect(other.arrived).toHaveLength(1)
})

test('every status has a meaning: what is certain did not happen, and nothing else, is refused or harmless', () => {
  const statuses = Array.from({ length: 300 }, (_, index) => index + 300)
  const all = (meaning: string, attempt: number) => statuses.filter((code) => meaningOf(code, attempt) === meaning)
  const turnedAway = [401, 403, 404, 405, 407, 421, 423, 425, 429]
  for (const attempt of [1, 2]) expect(all('retry', attempt)).toEqual(turnedAway)
  const others = statuses.filter((code) => code < 400 || code >= 500)
  expect(all('unknown', 1)).toEqual([...others, 408, 409].sort())
  // On a later attempt these may be about the key: "used with another body".
  expect(all('unknown', 2)).toEqual([...others, 400, 408, 409, 422].sort())
})

test('is not fooled by a deploy: "another body under this key" is no refusal of a charge that happened', async () => {
  let cents = 100
  const charges = new Map<unknown, string>()
  const { other, attempt, advance, key } = await withBody((run, url) => run.fetch('charge', url, { method: 'POST', body: String(cents) }))
  other.answer = (response, { headers, body }, number) => {
    const known = charges.get(headers['idempotency-key'])
    charges.set(headers['idempotency-key'], known ?? body)
    if (number === 1) response.destroy()
    else response.writeHead(known === body ? 201 : 422).end()
  }
  await expect(attempt()).rejects.toThrow('fetch failed')
  cents = 101
  await expect(attempt()).rejects.toMatchObject({ code: 'call_failed' })
  await advance(24 * 3_600_000)
  expect((await attempt()).kind).toBe('parked')
  expect([charges.size, (await key('k')).parked_step]).toEqual([1, 'charge'])
})

test('takes a status for a result where it is told to, and makes of a response what it is told', async () => {
  const { other, attempt } = await withBody(async (run, url) => [
    await run.fetch('declined', url, post, { accept: [402] }),
    await run.fetch('located', url, post, { parse: (response) => ({ at: response.headers.get('location') }) }),
  ])
  other.answer = (response, _, number) => response.writeHead(number === 1 ? 402 : 201, { location: '/charges/1' }).end('said')
  const outcome = await attempt()
  const body = outcome.kind === 'executed' && JSON.parse(Buffer.from(outcome.answer.body).toString())
  expect(body).toEqual([{ status: 402, body: 'said' }, { at: '/charges/1' }])
})

test('refuses a key of the caller’s before anything is sent, and sends its own in whatever header it is told', async () => {
  const { other, attempt, steps } = await withBody(async (run, url, number) => {
    const headers = { 'IDEMPOTENCY-KEY': 'mine' }
    if (number === 1) await run.fetch('charge', url, { method: 'POST', headers }, { whenUnknown: 'park' })
    if (number === 2) await run.fetch('charge', url, { method: 'POST' }, { header: 'no header' })
    if (number === 3) await run.fetch('charge', url, { method: 'POST' }, { accept: 402 as never })
    if (number === 4) await run.fetch('charge', 'nowhere', { method: 'POST' }, { whenUnknown: 'park' })
    return run.fetch('charge', url, { method: 'POST', headers: { 'x-own': '1' } }, { header: 'Request-Key' })
  })
  for (const _ of [1, 2, 3]) await expect(attempt()).rejects.toMatchObject({ code: 'option_invalid' })
  await expect(attempt()).rejects.toThrow('Invalid URL')
  expect([other.arrived, await steps()]).toEqual([[], []])
  expect((await attempt()).kind).toBe('executed')
  expect(other.arrived[0]?.headers).toMatchObject({ 'request-key': expect.stringMatching(/^[0-9a-f-]{36}$/), 'x-own': '1' })
  expect(other.keys()).toEqual([undefined])
})

test('takes the key to no other address: what may change something follows no redirect', async () => {
  const elsewhere = await otherSide()
  const { other, attempt } = await withBody(async (run, url, number) => {
    const redirect = number === 2 ? ('follow' as const) : undefined
    await run.fetch('charge', url, { ...post, ...(redirect ? { redirect } : {}) })
  })
  other.answer = (response) => response.writeHead(307, { location: elsewhere.url }).end()
  for (const _ of [1, 2]) await expect(attempt()).rejects.toMatchObject({ code: 'call_failed', message: expect.stringContaining('307') })
  expect(elsewhere.arrived).toEqual([])
  const reading = await withBody((run, url) => run.fetch('read', url))
  reading.other.answer = other.answer
  expect((await reading.attempt()).kind).toBe('executed')
  expect(elsewhere.keys()).toEqual([undefined])
})

test('a name used twice in one run is refused before anything is sent, as with every step', async () => {
  const { other, attempt, key } = await withBody(async (run, url) => {
    await run.fetch('charge', url, post)
    await run.fetch('charge', url, post)
  })
  await expect(attempt()).rejects.toMatchObject({ code: 'step_name_repeated' })
  expect([other.arrived.length, await key('k')]).toMatchObject([
    1,
    { state: 'pending', reason: expect.stringContaining("'charge' is used twice") },
  ])
})

test('without keys on the other side: what never left is harmless, what may have arrived is parked', async () => {
  const options: FetchOptions = { whenUnknown: 'park' }
  const gone = await otherSide()
  await gone.close()
  const { other, attempt } = await withBody((run, url, number) => run.fetch('charge', number === 1 ? gone.url : url, post, options))
  other.answer = (response, _, number) => (number === 1 ? response.writeHead(429).end() : response.destroy())
  await expect(attempt()).rejects.toThrow('fetch failed')
  await expect(attempt()).rejects.toMatchObject({ code: 'call_failed' })
  expect((await attempt()).kind).toBe('parked')
  expect(other.arrived).toHaveLength(2)
})

test('a time-out aborts the request itself', async () => {
  const { other, attempt } = await withBody((run, url) => run.fetch('charge', url, post, { timeout: '200ms' }))
  const closed = new Promise<void>((resolve) => {
    other.answer = (response) => response.once('close', resolve)
  })
  await expect(attempt()).rejects.toMatchObject({ code: 'call_timeout' })
  await closed
})

test('gives clients that take a fetch one that sends the key: again to the same address, and to no second', async () => {
  const { other, attempt } = await withBody((run, url, number) =>
    run.call('charge', async ({ fetch, key }) => {
      await fetch(new Request(`${url}/charges`, { method: 'POST', body: 'a', headers: { 'x-own': '1' } }))
      await fetch(`${url}/charges`, { method: 'post', body: 'a' })
      await fetch(`${url}/charges/1`)
      if (number === 1) await fetch(`${url}/refunds?token=secret`, { method: 'POST' })
      return key
    }),
  )
  const error = await attempt().catch((thrown) => thrown)
  expect([error.code, error.message]).toEqual(['option_invalid', expect.not.stringContaining('secret')])
  const outcome = await attempt()
  const key = outcome.kind === 'executed' && JSON.parse(Buffer.from(outcome.answer.body).toString())
  expect(other.keys()).toEqual([key, key, undefined, key, key, undefined])
  expect(other.arrived.map(({ path }) => path)).not.toContain('/refunds')
  expect(other.arrived[0]).toMatchObject({ body: 'a', headers: { 'x-own': '1' } })
})

test('a handler behind idempotency() has it by its run', async () => {
  const { once, tenant } = await setup(database)
  const other = await otherSide()
  const protect = idempotency(once, { tenant: () => tenant, afterFailure: 'rerun', onError })
  const { url, close } = await listen(
    protect(async (request, response) => {
      const charge = await runOf(once, request)?.fetch('charge', other.url, post)
      response.writeHead(other.arrived.length === 1 ? 500 : 201).end(JSON.stringify(charge))
    }),
  )
  const send = () => fetch(url, { method: 'POST', headers: { 'idempotency-key': 'k' } })
  other.answer = (response, _, number) => (number === 1 ? response.destroy() : response.end('ok'))
  expect([(await send()).status, (await send()).status]).toEqual([500, 201])
  expect([other.arrived.length, new Set(other.keys()).size]).toEqual([2, 1])
  await close()
})

test('derives keys from nothing but the life of the key and the name, whatever happens on the way', async () => {
  const bundle = await setup(database)
  const other = await otherSide()
  const named = fc.uniqueArray(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }).filter((name) => !name.includes('\0')),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  await fc.assert(
    fc.asyncProperty(named, fc.infiniteStream(fc.boolean()), async (names, breaks) => {
      const seen = new Map<string, Set<string>>()
      const once = bundle.newOnce()
      let left = 4
      other.answer = (response, { headers, body }) => {
        const keys = seen.get(body) ?? new Set()
        seen.set(body, keys.add(String(headers['idempotency-key'])))
        if (left > 0 && breaks.next().value && left--) response.destroy()
        else response.end('ok')
      }
      const operation = once.operation('property', {}, async (run) => {
        for (const name of names) {
          await run.fetch(name, other.url, { method: 'POST', body: Buffer.from(name).toString('hex') })
          if (left > 0 && breaks.next().value && left--) throw new Error('on the way')
        }
        return reply(204)
      })
      const key = crypto.randomUUID()
      while ((await operation.run({ tenant: bundle.tenant, key, input: null }).catch(() => ({ kind: 'again' }))).kind === 'again') {}
      expect([...seen.keys()].sort()).toEqual(names.map((name) => Buffer.from(name).toString('hex')).sort())
      expect([...seen.values()].map((keys) => keys.size)).toEqual(names.map(() => 1))
      expect(new Set([...seen.values()].flatMap((keys) => [...keys])).size).toBe(names.length)
    }),
    { numRuns: 10 },
  )
})

test('knows the type of what it gives', () => {
  const typed = async (run: Run) => {
    expectTypeOf(await run.fetch('a', 'http://localhost')).toEqualTypeOf<{ readonly status: number; readonly body: unknown }>()
    expectTypeOf((await run.fetch<Fetched<{ id: string }>>('b', 'http://localhost')).body.id).toBeString()
    expectTypeOf(await run.fetch('c', 'http://localhost', {}, { parse: () => new Date() })).toBeString()
  }
  expectTypeOf(typed).returns.resolves.toBeVoid()
})
