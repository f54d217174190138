import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { openFetch, withoutMark } from './fetch-bench.js'

const database = useDatabase()
type Handler = () => Response | Promise<Response>

const bytes = Uint8Array.of(0, 255, 128, 10)
const streamOf = (...pieces: unknown[]) => ReadableStream.from(pieces) as ReadableStream

describe('sends what it would send without the layer, and replays the same', () => {
  test.each<[string, Handler]>([
    ['a text', () => new Response('hello', { status: 201, headers: { 'x-custom': 'kept' } })],
    ['Response.json()', () => Response.json({ ok: true }, { status: 201, headers: { location: '/orders/1' } })],
    ['bytes', () => new Response(bytes)],
    ['an ArrayBuffer', () => new Response(bytes.buffer)],
    ['a Blob', () => new Response(new Blob([bytes], { type: 'image/png' }))],
    ['URLSearchParams', () => new Response(new URLSearchParams({ item: 'tea' }))],
    ['a stream', () => new Response(streamOf(bytes, new Uint8Array(), bytes))],
    ['an empty stream', () => new Response(streamOf())],
    ['no body', () => new Response()],
    ['an empty text', () => new Response('')],
    ['a 204', () => new Response(null, { status: 204 })],
    ['a 205', () => new Response(null, { status: 205 })],
    ['a 304', () => new Response(null, { status: 304, headers: { etag: '"v1"' } })],
    ['Response.redirect()', () => Response.redirect('http://localhost/orders/1', 303)],
    ['a 599', () => new Response('odd', { status: 599 })],
    ['the answer of another server', () => fetch('data:text/plain;charset=utf-8,upstream')],
    [
      'repeated headers',
      () =>
        new Response(null, {
          headers: [
            ['link', '</a>'],
            ['link', '</b>'],
            ['vary', 'a'],
          ],
        }),
    ],
  ])('%s', async (_, handler) => {
    const { send, sendTwice, runs } = await openFetch(database, handler, { options: { afterFailure: 'store' } })
    const unprotected = await send({ key: null })
    expect(withoutMark(await sendTwice())).toEqual(withoutMark(unprotected))
    expect(runs()).toBe(2)
  })
})

test('FormData is replayed with the boundary it was sent with', async () => {
  const { sendTwice } = await openFetch(database, () => {
    const form = new FormData()
    form.set('item', 'tea')
    form.set('file', new Blob([bytes]), 'tea.png')
    return new Response(form)
  })
  const { headers, text } = await sendTwice()
  expect(text).toContain(String(headers['content-type']).split('boundary=')[1])
})

test('a stream of other than bytes, which servers send although the standard does not know it, does not fail work that is done', async () => {
  const pieces = ['té', bytes.buffer, new DataView(bytes.buffer, 1, 2)]
  const { sendTwice } = await openFetch(database, () => new Response(streamOf(...pieces), { headers: { 'content-type': 'text/plain' } }))
  expect([...(await sendTwice()).bytes]).toEqual([...Buffer.from('té'), ...bytes, ...bytes.slice(1, 3)])
})

test('a stream of what nobody can send is an error', async () => {
  const { send, errors } = await openFetch(database, () => new Response(streamOf({ a: 1 })))
  expect((await send()).status).toBe(500)
  expect(String(errors[0])).toMatch(/must consist of bytes/)
})

test('each cookie reaches the first client in a line of its own, and no other client', async () => {
  const cookies: [string, string][] = [
    ['set-cookie', 'a=1; Path=/'],
    ['set-cookie', 'b=2'],
  ]
  const { send } = await openFetch(database, () => new Response('in', { headers: cookies }))
  expect((await send()).headers['set-cookie']).toEqual(['a=1; Path=/', 'b=2'])
  expect((await send()).headers['set-cookie']).toBeUndefined()
})

test('stripe: the first answer tells its id, and a replay whose answer it is; an id of the handler’s own is kept', async () => {
  const { send } = await openFetch(
    database,
    (request) => {
      const own = request.headers.get('idempotency-key') === 'own'
      return new Response('done', { headers: own ? { 'request-id': 'req_own' } : {} })
    },
    { options: { profile: 'stripe' } },
  )
  const [first, again] = [await send(), await send()]
  expect(first.headers['request-id']).toMatch(/^req_/)
  expect([again.headers['original-request'], again.replayed]).toEqual([first.headers['request-id'], true])
  expect((await send({ key: 'own' })).headers['request-id']).toBe('req_own')
  expect((await send({ key: 'own' })).headers['original-request']).toBe('req_own')
})

describe('is a coded error, and not an answer to keep', () => {
  const used = async () => {
    const response = new Response('read')
    await response.text()
    return response
  }
  const locked = () => {
    const response = new Response('locked')
    response.body?.getReader()
    return response
  }
  test.each<[string, () => unknown]>([
    ['a Response whose body was read', used],
    ['a Response whose body is being read', locked],
    ['nothing', () => undefined],
    ['something that is no Response', () => ({ status: 200, body: 'ok' })],
    ['Response.error()', () => Response.error()],
  ])('%s', async (_, handler) => {
    const { send, runs, errors, happened } = await openFetch(database, (_, run) =>
      run === 1 ? (handler() as Response) : new Response('right', { status: 201 }),
    )
    expect((await send()).status).toBe(500)
    expect(errors).toMatchObject([{ code: 'answer_invalid' }])
    expect(happened()).toEqual(['executing', 'released'])
    const again = await send()
    expect([again.text, again.replayed, runs()]).toEqual(['right', false, 2])
  })
})

describe('a handler that throws', () => {
  const failing = (_: Request, run: number) => {
    if (run === 1) throw new Error('no luck')
    return new Response(`run ${run}`)
  }

  test('rerun: its error goes to whoever called it, and a retry runs', async () => {
    const { send, errors } = await openFetch(database, failing)
    expect((await send()).status).toBe(500)
    expect(errors).toMatchObject([{ message: 'no luck' }])
    expect((await send()).text).toBe('run 2')
  })

  test('store: a retry is told that it failed for good', async () => {
    const { send, errors, runs } = await openFetch(database, failing, { options: { afterFailure: 'store' } })
    expect((await send()).status).toBe(500)
    const again = await send()
    expect([again.status, again.replayed, JSON.parse(again.text).code, runs()]).toEqual([500, true, 'work_failed', 1])
    expect(errors).toHaveLength(1)
  })

  test('park: a retry is told that the outcome is unknown', async () => {
    const { send, keyState, runs } = await openFetch(database, failing, { options: { afterFailure: 'park' } })
    expect([(await send()).status, await keyState()]).toEqual([500, 'parked'])
    const again = await send()
    expect([again.status, JSON.parse(again.text).code, runs()]).toEqual([500, 'outcome_unknown', 1])
  })
})
