// However its body arrives and however a handler reads it: it is all there.
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { finished, pipeline } from 'node:stream/promises'
import { describe, expect, test } from 'vitest'
import { readBody } from '../../src/adapters/node/request-body.js'
import { idempotency } from '../../src/adapters/node.js'
import { createFingerprinter } from '../../src/core/fingerprint/fingerprint.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { isReplay, replaysAlike, type Service, stacks, startService, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

type Reader = (request: IncomingMessage) => Promise<string>

const readers: [name: string, read: Reader][] = [
  [
    'for await',
    async (request) => {
      const pieces: Buffer[] = []
      for await (const piece of request) pieces.push(piece)
      return Buffer.concat(pieces).toString()
    },
  ],
  [
    'data and end',
    (request) =>
      new Promise((resolve, reject) => {
        const pieces: Buffer[] = []
        request.on('data', (piece: Buffer) => pieces.push(piece))
        request.on('end', () => resolve(Buffer.concat(pieces).toString())).on('error', reject)
      }),
  ],
  [
    'readable and read()',
    (request) =>
      new Promise((resolve, reject) => {
        const pieces: Buffer[] = []
        request.on('readable', () => {
          for (let piece = request.read(); piece !== null; piece = request.read()) pieces.push(piece)
        })
        request.on('end', () => resolve(Buffer.concat(pieces).toString())).on('error', reject)
      }),
  ],
  [
    'readable and read(size)',
    (request) =>
      new Promise((resolve, reject) => {
        const pieces: Buffer[] = []
        request.on('readable', () => {
          for (let piece = request.read(3) ?? request.read(); piece !== null; piece = request.read(3) ?? request.read()) pieces.push(piece)
        })
        request.on('end', () => resolve(Buffer.concat(pieces).toString())).on('error', reject)
      }),
  ],
  [
    'setEncoding()',
    (request) =>
      new Promise((resolve, reject) => {
        let all = ''
        request.setEncoding('utf8').on('data', (piece: string) => {
          all += piece
        })
        request.on('end', () => resolve(all)).on('error', reject)
      }),
  ],
  ['pipe()', (request) => text(request.pipe(new PassThrough()))],
  [
    'pipeline()',
    async (request) => {
      const through = new PassThrough()
      const [all] = await Promise.all([text(through), pipeline(request, through)])
      return all
    },
  ],
  [
    'finished()',
    async (request) => {
      const pieces: Buffer[] = []
      request.on('data', (piece: Buffer) => pieces.push(piece))
      await finished(request)
      return Buffer.concat(pieces).toString()
    },
  ],
  ['a web stream', (request) => new Response(Readable.toWeb(request) as unknown as ReadableStream).text()],
]

/** When the layer gets a request: how much of its body has arrived by then? */
const arrivals: [name: string, sizes: readonly [before: number, after: number]][] = [
  ['nothing has arrived', [0, 9_000]],
  ['half has arrived', [5_000, 9_000]],
  ['more than a buffer has arrived, and more will', [200_000, 300_000]],
  ['all has arrived', [9_000, 0]],
]

describe.each(stacks)('%s', (name, stack) => {
  /** Echoes the body; `before` is told the request. */
  const start = (read: Reader, before?: (request: IncomingMessage) => Promise<void>): Promise<Service> =>
    startService(database, (parts) =>
      stack(
        async (request, response) => {
          parts.ran()
          response.end(await read(request))
        },
        parts,
        before,
      ),
    )

  test.each(readers)('%s', async (_name, read) => {
    const service = await start(read)
    expect((await replaysAlike(service)).body.toString()).toBe('{"item":"tea"}')
  })

  // What has arrived when is the same in all of them; so one way to read it is enough for the others.
  const readersOfParts = name === 'node:http' ? readers : readers.slice(0, 1)
  // Which is hashed while it arrives; JSON is not.
  const mediaType = name === 'node:http' ? 'text/plain' : 'application/json'

  describe.each(arrivals)('%s', (_name, [before, after]) => {
    test.each(readersOfParts)('%s', async (_reader, read) => {
      const entered = new Gate()
      const service = await start(read, async (request) => {
        if (service.runs() > 0) return
        // As much as Node takes while nobody reads it.
        const arrived = Math.min(before, request.readableHighWaterMark)
        const whole = before > 0 && after === 0
        await waitUntil('so much has arrived', () => request.readableLength >= arrived && request.complete === whole)
        entered.open()
      })
      for (const replay of [false, true]) {
        const [first, second] = ['x'.repeat(before), 'y'.repeat(after)]
        const { request, answered } = openRequest(service, first.length + second.length, { 'content-type': mediaType })
        request.write(first)
        // The first time the rest comes when the layer has begun; at the replay, whenever it likes.
        if (!replay && after > 0) await entered.opened
        request.end(second)
        const { headers, body } = await answered
        expect([body === first + second, headers['idempotent-replayed']]).toEqual([true, replay ? 'true' : undefined])
      }
      expect(service.runs()).toBe(1)
    })
  })

  test('somebody in front listens to a body that has arrived, too', async () => {
    let heard = ''
    const service = await start(text, async (request) => {
      await waitUntil('it has arrived', () => request.complete)
      request.on('data', (piece) => {
        heard += piece
      })
    })
    expect((await service.send()).body.toString()).toBe('{"item":"tea"}')
    expect(heard).toBe('{"item":"tea"}')
    expect(isReplay(await service.send())).toBe(true)
    await waitUntil('the second is heard, too', () => heard.length === 28)
  })

  test('a body that has arrived in several pieces is compared whole', async () => {
    const service = await start(text, (request) => waitUntil('it has arrived', () => request.complete).then(() => {}))
    expect((await service.send({ body: ['{"amount":', '1}'] })).body.toString()).toBe('{"amount":1}')
    expect((await service.send({ body: ['{"amount":', '2}'] })).status).toBe(422)
  })

  test('an empty body in chunks', async () => {
    const service = await start(async (request) => `(${await text(request)})`)
    expect((await replaysAlike(service, { body: [] })).body.toString()).toBe('()')
  })

  test('an empty body in chunks that has arrived', async () => {
    const service = await start(
      async (request) => `(${await text(request)})`,
      (request) => waitUntil('it has arrived', () => request.complete).then(() => {}),
    )
    expect((await replaysAlike(service, { body: [] })).body.toString()).toBe('()')
  })

  test('Expect: 100-continue', async () => {
    const service = await start(text)
    for (const replay of [undefined, 'true']) {
      const { request, answered } = openRequest(service, 3, { expect: '100-continue' })
      request.flushHeaders()
      await new Promise((resolve) => request.once('continue', resolve))
      request.end('tea')
      const { headers, body } = await answered
      expect([body, headers['idempotent-replayed']]).toEqual(['tea', replay])
    }
  })

  test('a body that nobody reads does not stand in the way of the next request on its connection', async () => {
    const service = await start(async () => 'unread')
    const client = await rawConnection(service.url)
    const request = (path: string) => rawRequest({ path, tenant: service.tenant, key: '"key-1"', body: 'x'.repeat(300_000) })
    client.write(request('/one') + request('/two'))
    await waitUntil('two answers came', () => client.received().split('unread').length === 3)
    client.write(request('/one') + request('/three'))
    await waitUntil('four answers came', () => client.received().split('unread').length === 5)
    expect(service.runs()).toBe(3)
    client.destroy()
  })

  test('a body over the limit does not stand in the way of the next request on its connection', async () => {
    const service = await startService(database, (parts) =>
      stack(async (request, response) => response.end(String((await buffer(request)).length)), {
        ...parts,
        options: { ...parts.options, maxBodyBytes: 1_000 } as never,
      }),
    )
    const client = await rawConnection(service.url)
    const head = `POST /one HTTP/1.1\r\nHost: localhost\r\nX-Tenant: ${service.tenant}\r\nIdempotency-Key: "key-1"`
    const chunk = `2710\r\n${'x'.repeat(10_000)}\r\n`
    client.write(`${head}\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(100)}0\r\n\r\n`)
    client.write(`${head}\r\nContent-Length: 1000000\r\n\r\n${'x'.repeat(1_000_000)}`)
    client.write(rawRequest({ path: '/two', tenant: service.tenant, key: '"key-1"', body: 'tea' }))
    await waitUntil('all were answered', () => client.received().endsWith('\r\n\r\n3'))
    expect(client.received().match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 413', 'HTTP/1.1 200'])
    client.destroy()
  })

  test('a client that goes while the layer waits for the rest of the body: nothing runs, and the key is free', async () => {
    const half = new Gate()
    const service = await start(text, async (request) => {
      if (request.headers['content-length'] !== '100') return
      await waitUntil('half has arrived', () => request.readableLength === 50)
      half.open()
    })
    const { request, answered } = openRequest(service, 100)
    request.write('x'.repeat(50))
    await half.opened
    request.destroy()
    await expect(answered).rejects.toThrow()
    const retry = await service.send()
    expect([retry.status, isReplay(retry), service.runs()]).toEqual([200, false, 1])
  })
})

test('a key in the body, of which a part has arrived: it is read once, and is there for the handler', async () => {
  const { field } = await import('../../src/adapters/node.js')
  const started = new Gate()
  const service = await startService(database, ({ once, options, ran }) => {
    const listener = idempotency(once, { ...options, key: field('reference') })(async (request, response) => {
      ran()
      response.end(await text(request))
    })
    return async (request, response) => {
      await waitUntil('a part of it has arrived', () => request.readableLength > 0)
      started.open()
      await listener(request, response)
    }
  })
  for (const replay of [undefined, 'true']) {
    const body = JSON.stringify({ reference: 'key-1', amount: 1 })
    const { request, answered } = openRequest(service, body.length)
    request.write(body.slice(0, 10))
    await started.opened
    request.end(body.slice(10))
    const { headers, body: echoed } = await answered
    expect([echoed, headers['idempotent-replayed']]).toEqual([body, replay])
  }
})

test('a body that is not JSON is hashed while it arrives, and is there for the handler; JSON is not', async () => {
  const hashed = new Gate()
  const fingerprinter = createFingerprinter()
  const service = await startService(database, () => async (request, response) => {
    const arriving = (mediaType: string) => {
      const body = fingerprinter.arriving(mediaType)
      const add = body?.add.bind(body)
      if (body && add) {
        body.add = (piece) => {
          add(piece)
          hashed.open()
        }
      }
      return body
    }
    const body = await readBody(request, { maxBodyBytes: 1_000, arriving })
    const wasHashed = 'arrived' in body
    const bytes = 'bytes' in body ? Buffer.from(body.bytes).toString() : undefined
    response.end(JSON.stringify({ wasHashed, bytes, read: await text(request) }))
  })
  const upload = openRequest(service, 7, { 'content-type': 'text/csv' })
  upload.request.write('tea')
  // The end of the body is not there yet.
  await hashed.opened
  upload.request.end(';pot')
  expect(JSON.parse((await upload.answered).body)).toEqual({ wasHashed: true, bytes: 'tea;pot', read: 'tea;pot' })

  const json = openRequest(service, 5, { 'content-type': 'application/json' })
  json.request.end('"tea"')
  expect(JSON.parse((await json.answered).body)).toEqual({ wasHashed: false, bytes: '"tea"', read: '"tea"' })
})

test('another body that is not JSON, in other pieces: refused; the same in other pieces: replayed', async () => {
  const service = await startService(database, ({ once, options, ran }) =>
    idempotency(
      once,
      options,
    )(async (request, response) => {
      ran()
      response.end(await text(request))
    }),
  )
  const sendPieces = async (...pieces: string[]) => {
    const { request, answered } = openRequest(service, pieces.join('').length, { 'content-type': 'text/csv' })
    for (const piece of pieces) request.write(piece)
    request.end()
    const { status, body } = await answered
    return status === 200 ? body : status
  }
  expect(await sendPieces('te', 'a;pot')).toBe('tea;pot')
  expect(await sendPieces('tea;', 'p', 'ot')).toBe('tea;pot')
  expect(await sendPieces('te', 'a;pan')).toBe(422)
  expect(service.runs()).toBe(1)
})

/** A request of which the test sends the pieces. */
function openRequest(
  { url, tenant }: Service,
  length: number,
  headers: Record<string, string> = {},
): { request: ClientRequest; answered: Promise<{ status: number | undefined; headers: IncomingMessage['headers']; body: string }> } {
  const request = httpRequest(`${url}/work`, {
    method: 'POST',
    agent: false,
    headers: { 'content-length': length, 'content-type': 'application/json', 'x-tenant': tenant, 'idempotency-key': '"key-1"', ...headers },
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => request.once('response', resolve).once('error', reject)).then(
    async (response) => ({ status: response.statusCode, headers: response.headers, body: await text(response) }),
  )
  answered.catch(() => {})
  return { request, answered }
}
