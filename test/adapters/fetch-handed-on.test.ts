// What a handler can do with a request whose body the layer has read.
import { NextRequest } from 'next/server.js'
import { describe, expect, test } from 'vitest'
import { idempotency } from '../../src/adapters/fetch.js'
import { useDatabase } from '../support/postgres/database.js'
import { openFetch, tenant } from './fetch-bench.js'

const database = useDatabase()

const body = '{"item":"té"}'
const bytes = new TextEncoder().encode(body)
const textOf = (of: ConstructorParameters<typeof Response>[0]) => new Response(of).text()

/** What the handler makes of a request, announced or not. */
async function seenBy<T>(look: (request: Request) => T | Promise<T>, init: RequestInit = { body }): Promise<T> {
  let seen: { readonly value: T } | undefined
  const { call, request } = await openFetch(database, async (given) => {
    seen = { value: await look(given) }
    return new Response('done')
  })
  expect((await call(request(init))).status).toBe(200)
  return (seen as { value: T }).value
}

describe.each<[string, Record<string, string>]>([
  ['announced', { 'content-length': String(bytes.length) }],
  ['not announced', {}],
])('a body that is %s can be read with', (_, headers) => {
  test.each<[string, (request: Request) => Promise<string>]>([
    ['text()', (request) => request.text()],
    ['json()', async (request) => JSON.stringify(await request.json())],
    ['arrayBuffer()', async (request) => textOf(await request.arrayBuffer())],
    ['bytes()', async (request) => textOf(await (request as unknown as { bytes(): Promise<Uint8Array<ArrayBuffer>> }).bytes())],
    ['blob()', async (request) => (await request.blob()).text()],
    ['body', (request) => textOf(request.body)],
    ['clone()', (request) => request.clone().text()],
    ['a Request that is made from a clone', (request) => new Request('http://upstream', request.clone()).text()],
    ['a Request that is made with it', (request) => new Request('http://upstream', request).text()],
    ['a second read', async (request) => ((await request.text()) === body ? request.text() : '')],
  ])('%s', async (_, read) => expect(await seenBy(read, { body, headers })).toBe(body))
})

test('formData() and blob() know the media type', async () => {
  const form = new FormData()
  form.set('item', 'té')
  form.set('file', new Blob([bytes], { type: 'image/png' }), 'té.png')
  const sent = new Response(form)
  const encoded = { headers: { 'content-type': sent.headers.get('content-type') as string }, body: await sent.arrayBuffer() }
  const [item, file, type] = await seenBy(async (request) => {
    const read = await request.formData()
    const file = read.get('file') as File
    return [read.get('item'), [file.name, file.type, await file.text()], (await request.blob()).type] as const
  }, encoded)
  expect([item, file]).toEqual(['té', ['té.png', 'image/png', body]])
  expect(type).toMatch(/^multipart\/form-data; *boundary=/)
})

test('what a handler does to its copy changes nothing for the next reader', async () => {
  const read = await seenBy(async (request) => {
    new Uint8Array(await request.arrayBuffer()).fill(0)
    return request.text()
  })
  expect(read).toBe(body)
})

test('a byte order mark is left out of a text, and stays among the bytes', async () => {
  const marked = Uint8Array.of(0xef, 0xbb, 0xbf, ...bytes)
  const read = await seenBy(async (request) => [await request.text(), (await request.arrayBuffer()).byteLength], { body: marked })
  expect(read).toEqual([body, marked.length])
})

test('text that is not JSON fails json(), as it does without the layer', async () => {
  const error = await seenBy((request) => request.json().catch((error: Error) => error.name), { body: 'tea' })
  expect(error).toBe('SyntaxError')
})

test('the request says that its body is unread, and a clone carries method, headers and signal', async () => {
  const client = new AbortController()
  const seen = await seenBy(
    (request) => {
      const clone = request.clone()
      client.abort()
      const { method, url, headers, signal, bodyUsed } = clone
      return [request.bodyUsed, bodyUsed, method, url, headers.get('idempotency-key'), signal.aborted]
    },
    { body, signal: client.signal },
  )
  expect(seen).toEqual([false, false, 'POST', 'http://localhost/orders', 'k', true])
})

test('a request without a body has none behind the layer', async () => {
  expect(await seenBy(async (request) => [request.body, await request.text()], {})).toEqual([null, ''])
})

describe('NextRequest', () => {
  /** Next.js hands route handlers a proxy that binds what it returns. */
  const proxied = (request: NextRequest) =>
    new Proxy(request, {
      get(target, name) {
        const value = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })

  test.each<[string, (request: NextRequest) => NextRequest]>([
    ['as it is', (request) => request],
    ['behind the proxy of a route handler', proxied],
  ])('%s: keeps nextUrl and cookies, and its body can be read', async (_, wrap) => {
    const { once, request } = await openFetch(database, () => new Response())
    const POST = idempotency(once, { tenant, afterFailure: 'rerun' })(async (given: NextRequest) =>
      Response.json([
        given.nextUrl.searchParams.get('page'),
        given.cookies.get('session')?.value,
        given instanceof NextRequest,
        await given.json(),
        await given.clone().text(),
      ]),
    )
    const headers = request({ headers: { cookie: 'session=s-1' } }).headers
    const send = () => POST(wrap(new NextRequest('http://localhost/orders?page=2', { method: 'POST', headers, body })))
    for (const replayed of [null, 'true']) {
      const response = await send()
      expect(await response.json()).toEqual(['2', 's-1', true, { item: 'té' }, body])
      expect(response.headers.get('idempotent-replayed')).toBe(replayed)
    }
  })
})
