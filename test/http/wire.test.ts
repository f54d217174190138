import { connect, createServer as createHttp2Server } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idempotency } from '../../src/adapters/node.js'
import { createOnce, type HeaderPair } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { post } from './client.js'
import { type Handler, type Options, protectOn } from './listening.js'
import { isReplay, problemOf, type Seen } from './seen.js'

const database = useDatabase()

const body = '{"amount":100}'
const key = '"k"'

const protect = (handler: Handler, options?: Options) => protectOn(database, handler, options)

/** What a replay must have in common with its original. */
function comparable({ status, headers, bytes }: Seen) {
  const own = ['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'idempotent-replayed']
  const lines = headers
    .filter(([name]) => !own.includes(name.toLowerCase()))
    .map(([name, value]): HeaderPair => [name.toLowerCase(), value])
  return { status, headers: lines, bytes }
}

const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
const zipped = gzipSync('{"zipped":true}')

const answers: [string, Handler, { status: number; bytes: readonly number[] }][] = [
  ['a 204', (_, response) => response.writeHead(204, { 'X-Custom': 'kept' }).end(), { status: 204, bytes: [] }],
  ['a 303', (_, response) => response.writeHead(303, { Location: '/orders/1' }).end(), { status: 303, bytes: [] }],
  ['a 200 of nothing', (_, response) => response.end(), { status: 200, bytes: [] }],
  ['binary', (_, response) => response.setHeader('Content-Type', 'image/png').end(everyByte), { status: 200, bytes: [...everyByte] }],
  [
    'invalid UTF-8 that calls itself JSON',
    (_, response) => response.setHeader('Content-Type', 'application/json').end(Buffer.from([0x22, 0xff, 0xfe, 0x22])),
    { status: 200, bytes: [0x22, 0xff, 0xfe, 0x22] },
  ],
  [
    'chunked',
    (_, response) => {
      response.writeHead(202, { 'Content-Type': 'text/plain' })
      for (const piece of ['a', 'b', 'c']) response.write(piece)
      response.end('d')
    },
    { status: 202, bytes: [...Buffer.from('abcd')] },
  ],
  [
    'gzip',
    (_, response) => response.writeHead(200, { 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' }).end(zipped),
    { status: 200, bytes: [...zipped] },
  ],
  [
    'repeated headers',
    (_, response) => {
      response.setHeader('Link', ['</a>; rel="prev"', '</b>; rel="next"'])
      response.setHeader('ETag', '"7"')
      response.end('x')
    },
    { status: 200, bytes: [0x78] },
  ],
]

describe('on the wire', () => {
  test.each(answers)('R4 %s is replayed as it was', async (_, handler, expected) => {
    const { send, runs } = await protect(handler)
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect({ status: first.status, bytes: first.bytes }).toEqual(expected)
    expect(comparable(second)).toEqual(comparable(first))
    expect([first, second].map(isReplay)).toEqual([false, true])
    expect(runs()).toBe(1)
  })

  test('R2 Date is fresh, and Set-Cookie, Connection, Transfer-Encoding and request ids are not the stored ones', async () => {
    const { send, runs } = await protect((_, response) => {
      response.writeHead(200, {
        Date: 'Sat, 01 Nov 2025 00:00:00 GMT',
        'Set-Cookie': ['session=first', 'theme=dark'],
        Connection: 'X-Hop, close',
        'X-Hop': 'of the first',
        'Keep-Alive': 'timeout=1234',
        'Transfer-Encoding': 'chunked',
        'X-Request-Id': 'request-1',
        'X-End': 'of both',
      })
      response.write('whole ')
      response.end('answer')
    })
    const [first, second] = [await send({ key, body }), await send({ key, body })]
    expect(first.header('set-cookie')).toBe('session=first')
    expect(second.text).toBe(first.text)
    expect(second.header('x-end')).toBe('of both')
    for (const name of ['set-cookie', 'x-hop', 'x-request-id', 'transfer-encoding']) expect(second.header(name)).toBeUndefined()
    expect(second.header('date')).not.toBe(first.header('date'))
    expect(Math.abs(Date.parse(second.header('date') ?? '') - Date.now())).toBeLessThan(3_600_000)
    expect(JSON.stringify(second.headers)).not.toMatch(/session=first|theme=dark|of the first|1234|request-1/)
    expect(second.header('content-length')).toBe('12')
    expect(runs()).toBe(1)
  })

  test('R5 a stream over the size cap goes out whole, and a replay says that it was not kept, n=1', async () => {
    const pieces = Array.from({ length: 10 }, (_, index) => String(index).repeat(100))
    const { send, runs } = await protect(
      (_, response) => {
        response.writeHead(200, { Location: '/report' })
        for (const piece of pieces) response.write(piece)
        response.end('the end')
      },
      { maxAnswerBytes: 250 },
    )
    expect((await send({ key, body })).text).toBe(`${pieces.join('')}the end`)
    const second = await send({ key, body })
    expect(problemOf(second)).toEqual({ status: 410, code: 'answer_not_kept' })
    expect(second.header('location')).toBe('/report')
    expect(runs()).toBe(1)
  })

  test.each<[string, Record<string, string>]>([
    ['says so', {}],
    ['comes in pieces', { 'transfer-encoding': 'chunked' }],
  ])('413 for a body that is too large and %s, n=0', async (_, headers) => {
    const { port, runs } = await protect((_, response) => response.end(), { maxBodyBytes: 99 })
    const answer = await post(port, { key, headers, body: new Uint8Array(100) })
    expect(problemOf(answer)).toEqual({ status: 413, code: 'body_too_large' })
    expect(runs()).toBe(0)
    expect((await post(port, { key, headers, body: new Uint8Array(99) })).status).toBe(200)
  })

  test('F1 other body in pieces: 422, n=1', async () => {
    const { port, runs } = await protect((_, response) => response.writeHead(201).end())
    const chunked = { 'transfer-encoding': 'chunked' }
    expect((await post(port, { key, headers: chunked, body })).status).toBe(201)
    expect((await post(port, { key, headers: chunked, body: '{}' })).status).toBe(422)
    expect(runs()).toBe(1)
  })

  test('F1 other body over HTTP/2, which need not say how long it is: 422, n=1', async () => {
    let runs = 0
    const once = createOnce({ store: postgresStore(fromPg(database.pool)), lease: '10m' })
    const tenant = crypto.randomUUID()
    const listener = idempotency(once, { tenant: () => tenant, afterFailure: 'rerun' })((_, response) => {
      runs += 1
      response.end(String(runs))
    })
    const server = createHttp2Server(listener as never)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    onTestFinished(() => {
      client.destroy()
      server.close()
    })
    const status = (text: string) => {
      const stream = client.request({ ':method': 'POST', ':path': '/', 'idempotency-key': key, 'content-type': 'application/json' })
      stream.end(text)
      return new Promise((resolve) => stream.resume().once('response', (headers) => resolve(headers[':status'])))
    }
    expect([await status(body), await status('{}'), await status(body)]).toEqual([200, 422, 200])
    expect(runs).toBe(1)
  })

  test.each([
    ['that are equal', ['"a"', '"a"']],
    ['that are one key together', ['"a', 'b"']],
  ])('K7 two lines of the key %s: 400, n=0', async (_, lines) => {
    const { port, runs } = await protect((_, response) => response.end())
    const answer = await post(port, { headers: { 'idempotency-key': lines }, body })
    expect(problemOf(answer)).toEqual({ status: 400, code: 'key_invalid' })
    expect(runs()).toBe(0)
  })
})
