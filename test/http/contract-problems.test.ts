import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { neverStarted } from '../../src/core/system-answers.js'
import { type ProblemCode, problems } from '../../src/http/problems.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf, type Seen } from './seen.js'
import { everywhere, gated, leaseMs, type ProfileName, setup } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'
const profiles = ['ietf', 'stripe'] as const

type Bundle = Awaited<ReturnType<typeof setup>> & { profile: ProfileName }

/** A way to each problem, on an opaque handler where there is one. `options` are for all of them alike. */
const ways: Record<ProblemCode, (bundle: Bundle, options: { problemBase?: string }) => Promise<Seen>> = {
  key_missing: ({ handler }, options) => handler({ ...options, required: true }).send({ body }),
  key_invalid: ({ handler }, options) => handler(options).send({ key: '', body }),
  async key_reused({ handler }, options) {
    const { send } = handler(options)
    await send({ key, body })
    return send({ key, body: '{}' })
  },
  async key_in_use({ handler }, options) {
    const { work, arrived, open } = gated()
    const { send } = handler(options, work)
    const first = send({ key, body })
    await arrived
    const answer = await send({ key, body })
    open()
    await first
    return answer
  },
  body_too_large: ({ handler }, options) => handler(options).send({ key, body, arrives: { failed: 'too_large' } }),
  body_incomplete: ({ handler }, options) => handler(options).send({ key, body, arrives: { failed: 'incomplete' } }),
  signature_invalid: ({ webhook }, options) => webhook({ ...options, verify: () => undefined }).send({ body }),
  media_type_unsupported: ({ operation }, options) => operation(options).send({ key, body, headers: [['content-type', 'text/plain']] }),
  input_invalid: ({ operation }, options) => operation(options, undefined, { input: z.object({ name: z.string() }) }).send({ key, body }),
  async answer_not_kept({ handler }, options) {
    const { send } = handler(options, () => reply(200, 'x'.repeat(9_000_000)))
    await send({ key, body })
    return send({ key, body })
  },
  async outcome_unknown({ handler }, options) {
    const { send } = handler({ ...options, afterFailure: 'park' }, () => reply(500))
    await send({ key, body })
    return send({ key, body })
  },
  async work_failed({ handler }, options) {
    const { send } = handler({ ...options, afterFailure: 'store' }, () => {
      throw new Error('boom')
    })
    await send({ key, body }).catch(() => {})
    return send({ key, body })
  },
  async never_started({ handler, caller }, options) {
    // What workers leave behind of a key that they never came to.
    const { send } = handler(options)
    await send({ key, body })
    const { headers, body: bytes } = neverStarted
    await database.pool.query(
      `update oncekey.keys set state = 'failed', answer_status = 408, answer_headers = $2, answer_body = $3 where tenant = $1`,
      [caller, JSON.stringify(headers), bytes],
    )
    return send({ key, body })
  },
  async interrupted({ handler, advance }, options) {
    const { work, arrived, open } = gated()
    const { send } = handler(options, (n, run) => (n === 1 ? work(n, run) : reply(201)))
    const first = send({ key, body })
    await arrived
    await advance(leaseMs)
    await send({ key, body })
    open()
    return first
  },
  async shutting_down({ handler, once }, options) {
    await once.stop()
    return handler(options).send({ key, body })
  },
  async store_unavailable({ profile }, options) {
    const pool = database.createPool()
    await pool.end()
    const { handler } = await setup(database, profile, { pool })
    return handler(options).send({ key, body })
  },
  operation_unknown: ({ accepting }, options) => accepting({}, undefined, {}, options).look(`/operations/${crypto.randomUUID()}`),
  async operation_expired({ accepting, advance }, options) {
    const { send, look, carryOut } = accepting({}, undefined, {}, options)
    const location = (await send({ key, body })).header('location')
    await carryOut()
    await advance(25 * 3_600_000)
    return look(location)
  },
}

async function provoke(profile: ProfileName, code: ProblemCode, options: { problemBase?: string } = {}) {
  return ways[code]({ ...(await setup(database, profile)), profile }, options)
}

const codes = Object.keys(problems) as ProblemCode[]
const withRetryAfter: ProblemCode[] = ['key_in_use', 'interrupted', 'shutting_down', 'store_unavailable']
/** To send it again does not help, although it is a 5xx. */
const isFinal: ProblemCode[] = ['outcome_unknown', 'work_failed']

describe('in the ietf profile', () => {
  test.each(codes)('P1 %s is application/problem+json with type, title, status, detail, code and a Link', async (code) => {
    const answer = await provoke('ietf', code)
    const { status, title } = problems[code]
    expect(answer.status).toBe(status)
    expect(answer.header('content-type')).toBe('application/problem+json')
    expect(answer.json).toMatchObject({ type: `urn:oncekey:problem:${code}`, title, status, code, detail: expect.any(String) })
    expect(answer.header('link')).toBe(`<https://unpkg.com/oncekey/docs/problems/${code}.md>; rel="describedby"`)
    expect(answer.header('retry-after')).toEqual(withRetryAfter.includes(code) ? expect.stringMatching(/^[1-9][0-9]*$/) : undefined)
  })

  test.each(codes)('P1 the detail of %s says what to do', async (code) => {
    const { detail } = (await provoke('ietf', code)).json
    expect(detail).toMatch(/\b([Ss]end|[Uu]se|[Ww]ait|[Cc]orrect|read its result|[Ff]ind out|[Cc]heck|end the key with)\b/)
    expect(detail).toMatch(/\.$/)
  })
})

describe('in the stripe profile', () => {
  test.each(codes)('P1 %s is an error object with type, code and message', async (code) => {
    const answer = await provoke('stripe', code)
    expect(answer.status).toBe(code === 'key_reused' ? 400 : problems[code].status)
    expect(answer.header('content-type')).toBe('application/json')
    expect(Object.keys(answer.json)).toEqual(['error'])
    const { error } = answer.json
    const type = code === 'key_reused' ? 'idempotency_error' : problems[code].status >= 500 ? 'api_error' : 'invalid_request_error'
    expect(error).toMatchObject({ type, code: code === 'key_in_use' ? 'idempotency_key_in_use' : code, message: expect.any(String) })
    expect(error.doc_url).toBe(`https://unpkg.com/oncekey/docs/problems/${code}.md`)
    expect(answer.header('link')).toBe(`<${error.doc_url}>; rel="describedby"`)
    expect(answer.header('request-id')).toMatch(/^req_[0-9a-f]{32}$/)
    expect(answer.header('stripe-should-retry')).toBe(isFinal.includes(code) ? 'false' : undefined)
    expect(answer.header('retry-after')).toEqual(withRetryAfter.includes(code) ? expect.stringMatching(/^[1-9][0-9]*$/) : undefined)
  })
})

describe.each(profiles)('every problem in the %s profile', (profile) => {
  test('P1 has a type (stripe: a page), a code and words of its own', async () => {
    const seen: Record<'name' | 'code' | 'words', string>[] = []
    for (const code of codes) {
      const { json } = await provoke(profile, code)
      seen.push(
        profile === 'stripe'
          ? { name: json.error.doc_url, code: json.error.code, words: json.error.message }
          : { name: json.type, code: json.code, words: json.detail },
      )
    }
    for (const part of ['name', 'code', 'words'] as const) expect(new Set(seen.map((each) => each[part])).size).toBe(codes.length)
  })

  test.each([
    ['with a slash at its end', 'https://api.example.com/problems/', 'https://api.example.com/problems/key_missing'],
    ['without one', 'https://api.example.com/problems', 'https://api.example.com/problems/key_missing'],
  ])('P1 problemBase %s is where the pages are', async (_, problemBase, page) => {
    const answer = await provoke(profile, 'key_missing', { problemBase })
    expect(profile === 'stripe' ? answer.json.error.doc_url : answer.json.type).toBe(page)
    expect(answer.header('link')).toBe(`<${page}>; rel="describedby"`)
  })

  test('P1 problemBase is kept for what was stored by the system, too', async () => {
    const answer = await provoke(profile, 'work_failed', { problemBase: 'https://api.example.com/problems/' })
    expect(isReplay(answer)).toBe(true)
    expect(answer.header('link')).toBe('<https://api.example.com/problems/work_failed>; rel="describedby"')
  })

  test('P1 a dialect of your own renders every problem', async () => {
    const { handler } = await setup(database, profile)
    const own = {
      name: 'own',
      methods: ['POST'],
      scope: 'endpoint',
      serveRequiresKey: true,
      storeErrors: false,
      requestIds: false,
      render: ({ code }: { code: string }) => reply(418, { teapot: code }),
    } as const
    const { send } = handler({ profile: own })
    expect(await send({ key: '"half', body })).toMatchObject({ status: 418, text: '{"teapot":"key_invalid"}' })
  })
})

describe.each(profiles)('a body that does not arrive, in the %s profile', (profile) => {
  test.each([
    ['too_large', { status: 413, code: 'body_too_large' }],
    ['incomplete', { status: 400, code: 'body_incomplete' }],
  ] as const)('%s: refused before anything runs or is stored, by both', async (failed, problem) => {
    const { handler, operation, keys } = await setup(database, profile)
    for (const { send, runs } of [handler(), operation()]) {
      expect(problemOf(await send({ key, body, arrives: { failed } }))).toEqual(problem)
      expect(runs()).toBe(0)
      expect(await keys()).toBe(0)
    }
  })

  test('says nothing of a stored answer', async () => {
    const { handler } = await setup(database, profile)
    const { send } = handler()
    await send({ key, body })
    expect((await send({ key, body, arrives: { failed: 'incomplete' } })).status).toBe(400)
    expect(isReplay(await send({ key, body }))).toBe(true)
  })
})

describe.each(everywhere)('a rolling change of secrets, with %s() in the %s profile', (surface, profile) => {
  test('P1 a stored fingerprint that this process cannot compare yet: 503 with Retry-After, in the dialect, n=0', async () => {
    const { handler, operation, newOnce, caller } = await setup(database, profile)
    const other = createOnce({
      store: postgresStore(fromPg(database.pool)),
      fingerprint: { secrets: [{ id: 'new', secret: 'of the new processes' }] },
    })
    const [ahead, behind] = [other, newOnce()].map((on) =>
      surface === 'serve' ? operation({}, undefined, { on, name: 'pay' }) : handler({}, undefined, on),
    )
    expect((await ahead?.send({ key, body }))?.status).toBe(201)
    const answer = await behind?.send({ key, body, caller })
    expect(answer?.status).toBe(503)
    expect(answer?.header('content-type')).toBe(profile === 'ietf' ? 'application/problem+json' : 'application/json')
    expect(Number(answer?.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(behind?.runs()).toBe(0)
  })
})
