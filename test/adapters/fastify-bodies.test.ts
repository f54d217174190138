import { createGunzip, gzipSync } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { expect, test } from 'vitest'
import { idempotency } from '../../src/adapters/fastify.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { start, startProtected, tenant } from './fastify-app.js'
import { isReplay, jsonOf, textOf } from './service.js'

const database = useDatabase()

async function wholeOf(stream: unknown): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of stream as AsyncIterable<Buffer>) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

const typed = (type: string, body: string | Uint8Array | readonly string[]) => ({ headers: { 'content-type': type }, body })

test('JSON and text reach the handler as Fastify parses them', async () => {
  const service = await startProtected(database, (app) => {
    app.post('/work', async ({ body }) => ({ body }))
  })
  const [json, again] = await service.twice()
  expect([jsonOf(json), jsonOf(again)]).toEqual([{ body: { item: 'tea' } }, { body: { item: 'tea' } }])
  expect(jsonOf(await service.send({ ...typed('text/plain', 'tea, please'), key: '"text"' }))).toEqual({ body: 'tea, please' })
})

test('a parser that hands the stream on: the handler reads it, whole', async () => {
  const large = 'x'.repeat(300_000)
  const service = await startProtected(database, (app) => {
    app.addContentTypeParser('application/x-upload', (_request, payload, done) => done(null, payload))
    app.post('/work', async ({ body }) => ({ size: (await wholeOf(body)).length }))
  })
  for (const [key, body] of [
    ['"small"', 'abc'],
    ['"large"', large],
    ['"chunks"', ['abc', large]],
  ] as const) {
    const [first, again] = await service.twice({ ...typed('application/x-upload', body), key })
    expect([jsonOf(first).size, isReplay(again)]).toEqual([[body].flat().join('').length, true])
  }
  expect((await service.send({ ...typed('application/x-upload', 'abd'), key: '"small"' })).status).toBe(422)
})

test('the body of a request without a key is not held up: its handler has the first piece before the last one is sent', async () => {
  const began = new Gate()
  const service = await startProtected(database, (app) => {
    app.addContentTypeParser('application/x-upload', (_request, payload, done) => done(null, payload))
    app.post('/work', async ({ body }) => {
      for await (const _ of body as AsyncIterable<Buffer>) began.open()
      return 'done'
    })
  })
  const socket = await rawConnection(service.url)
  socket.write('POST /work HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-upload\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n')
  await began.opened
  socket.write('3\r\ntwo\r\n0\r\n\r\n')
  await waitUntil('it is answered', () => socket.received().endsWith('done'))
  socket.destroy()
})

test('a parser that consumes request.raw itself, such as one of a form with files', async () => {
  const service = await startProtected(database, (app) => {
    app.addContentTypeParser('multipart/form-data', async ({ raw }: { raw: unknown }) => ({
      parts: (await wholeOf(raw)).split('--b').length,
    }))
    app.post('/work', async ({ body }) => body)
  })
  const form = '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nbytes\r\n--b--\r\n'
  const [first, again] = await service.twice(typed('multipart/form-data; boundary=b', form))
  expect([jsonOf(first), isReplay(again)]).toEqual([{ parts: 3 }, true])
  expect((await service.send(typed('multipart/form-data; boundary=b', form.replace('bytes', 'other')))).status).toBe(422)
})

test('a parser of JSON that goes on before it has read the body, and reads no further than the handler does', async () => {
  const large = JSON.stringify({ item: 'x'.repeat(900_000) })
  const service = await startProtected(database, (app) => {
    app.removeContentTypeParser('application/json')
    app.addContentTypeParser('application/json', (_request, payload, done) => {
      payload.once('data', (first: Buffer) => {
        payload.pause()
        done(null, { first, payload })
      })
    })
    app.post('/work', async ({ body }) => {
      const { first, payload } = body as { first: Buffer; payload: AsyncIterable<Buffer> }
      return { size: first.length + (await wholeOf(payload)).length }
    })
  })
  const [first, again] = await service.twice(typed('application/json', large))
  expect([jsonOf(first).size, isReplay(again)]).toEqual([large.length, true])
  expect((await service.send(typed('application/json', large.replace('xx', 'xy')))).status).toBe(422)
})

test('the same with more than maxBodyBytes: a 413 before its end, and no more of it is kept', async () => {
  const build = (app: FastifyInstance) => {
    app.removeContentTypeParser('application/json')
    app.addContentTypeParser('application/json', (_request, payload, done) => {
      payload.once('data', () => done(null, {}))
    })
    app.post('/work', async () => 'done')
  }
  const service = await startProtected(database, build, { options: { maxBodyBytes: 1_000 } })
  const socket = await rawConnection(service.url)
  const head = `POST /work HTTP/1.1\r\nHost: a\r\nX-Tenant: t\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\n`
  socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n3\r\n"ab\r\n`)
  socket.write(`fff\r\n${'x'.repeat(0xfff)}\r\n`)
  await waitUntil('it is refused', () => socket.received().startsWith('HTTP/1.1 413'))
  socket.destroy()
})

test('a parser of JSON that leaves the reading to the handler', async () => {
  const service = await startProtected(database, (app) => {
    app.removeContentTypeParser('application/json')
    app.addContentTypeParser('application/json', (_request, payload, done) => done(null, payload))
    app.post('/work', async ({ body }) => ({ text: await wholeOf(body) }))
  })
  for (const [key, body] of [
    ['"whole"', '{"item":"tea"}'],
    ['"pieces"', ['{"item":', '"coffee"}']],
  ] as const) {
    const [first, again] = await service.twice({ ...typed('application/json', body), key })
    expect([jsonOf(first).text, isReplay(again)]).toEqual([[body].flat().join(''), true])
  }
})

test('registered twice, JSON is kept once, and arrives', async () => {
  const service = await startProtected(database, async (app, { once }) => {
    await app.register(idempotency(once, { tenant, afterFailure: 'rerun' }))
    app.post('/work', async ({ body }) => ({ body }))
  })
  const [first, again] = await service.twice(typed('application/json', ['{"item":', '"tea"}']))
  expect([jsonOf(first), isReplay(again)]).toEqual([{ body: { item: 'tea' } }, true])
  expect((await service.send(typed('application/json', '{"item":"milk"}'))).status).toBe(422)
})

test('JSON over maxBodyBytes whose length nobody announced: a 413, and nothing runs', async () => {
  let runs = 0
  const build = (app: FastifyInstance) => {
    app.post('/work', async () => {
      runs += 1
    })
  }
  const service = await startProtected(database, build, { options: { maxBodyBytes: 100 } })
  const pieces = ['{"item":"', 'x'.repeat(200), '"}']
  expect((await service.send(typed('application/json', pieces))).status).toBe(413)
  expect(runs).toBe(0)
})

test('a body that does not fit the schema is refused, is not a use of the key, and the corrected one runs', async () => {
  let runs = 0
  const body = { type: 'object', required: ['quantity'], properties: { quantity: { type: 'integer' } } } as const
  const service = await startProtected(database, (app) => {
    app.post('/work', { schema: { body } }, async () => ({ runs: ++runs }))
  })
  expect(jsonOf(await service.send())).toMatchObject({ statusCode: 400, code: 'FST_ERR_VALIDATION' })
  expect(await service.stateOf()).toBe(undefined)
  expect(jsonOf(await service.send({ body: '{"quantity":1}' }))).toEqual({ runs: 1 })
  expect(isReplay(await service.send({ body: '{"quantity":1}' }))).toBe(true)
  // What the schema refuses is told before anybody asks what the key was used for.
  expect((await service.send()).status).toBe(400)
})

test('a body that is not JSON, or over the bodyLimit, is refused by Fastify and is not a use of the key', async () => {
  const service = await startProtected(
    database,
    (app) => {
      app.post('/work', async () => 'done')
    },
    { fastify: { bodyLimit: 100 } },
  )
  expect((await service.send({ body: '{"item":' })).status).toBe(400)
  expect((await service.send({ body: JSON.stringify({ item: 'x'.repeat(200) }) })).status).toBe(413)
  expect((await service.send({ body: ['{"item":"', 'x'.repeat(200), '"}'] })).status).toBe(413)
  expect((await service.send(typed('application/x-unknown', 'abc'))).status).toBe(415)
  expect(await service.stateOf()).toBe(undefined)
  expect(textOf(await service.send())).toBe('done')
})

test('a request without a content type, with a body or without one', async () => {
  const service = await startProtected(database, (app) => {
    app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
    app.post('/work', async ({ body }) => ({ body: body ?? null }))
  })
  const [bare, bareAgain] = await service.twice({ headers: {}, body: null })
  expect([jsonOf(bare), isReplay(bareAgain)]).toEqual([{ body: null }, true])
  expect((await service.send({ headers: {}, body: 'tea' })).status).toBe(422)
  const [some, someAgain] = await service.twice({ headers: {}, body: 'tea', key: '"other"' })
  expect([jsonOf(some), isReplay(someAgain)]).toEqual([{ body: 'tea' }, true])
})

test.each(['announced', 'in chunks'])('over maxBodyBytes, %s: a 413 of the layer, and nothing has run', async (how) => {
  const service = await startProtected(
    database,
    (app) => {
      app.post('/work', async () => 'done')
    },
    { options: { maxBodyBytes: 100 } },
  )
  const large = JSON.stringify({ item: 'x'.repeat(200) })
  const refused = await service.send({ body: how === 'announced' ? large : [large.slice(0, 150), large.slice(150)] })
  expect([refused.status, refused.lines('content-type')]).toEqual([413, ['application/problem+json']])
  expect(jsonOf(refused).code).toBe('body_too_large')
  expect(service.events).toEqual([])
  expect(textOf(await service.send())).toBe('done')
})

/** The layer must have read a body to know that it has no key in it; a handler that needs none gets it all the same. */
test('a request that turns out to have no key reaches its handler whole, whatever its size', async () => {
  const service = await startProtected(
    database,
    (app) => {
      app.post('/work', async ({ body }) => ({ size: (body as { item: string }).item.length }))
    },
    { options: { maxBodyBytes: 100, key: ({ headers }) => headers['x-my-key'] as string | undefined } },
  )
  const large = JSON.stringify({ item: 'x'.repeat(200) })
  expect(jsonOf(await service.send({ body: large }))).toEqual({ size: 200 })
  expect(jsonOf(await service.send({ body: [large.slice(0, 150), large.slice(150)] }))).toEqual({ size: 200 })
})

test('over maxBodyBytes, and a part of it was there before anybody looked: a 413, and the connection stays usable', async () => {
  const service = await start(database, async (app: FastifyInstance, { once }) => {
    app.addHook('onRequest', async ({ raw }) => {
      await waitUntil('a part of the body has arrived', () => raw.complete || raw.readableLength > 100)
    })
    await app.register(idempotency(once, { tenant, afterFailure: 'rerun', maxBodyBytes: 100 }))
    app.post('/work', async () => 'done')
  })
  const socket = await rawConnection(service.url)
  const head = (length: string) =>
    `POST /work HTTP/1.1\r\nHost: a\r\nX-Tenant: ${service.tenant}\r\nContent-Type: text/plain\r\nIdempotency-Key: "key-1"\r\n${length}\r\n\r\n`
  socket.write(`${head('Transfer-Encoding: chunked')}c8\r\n${'x'.repeat(200)}\r\n`)
  await waitUntil('the rest of the request may come', () => service.log.some(({ msg }) => msg === 'incoming request'))
  socket.write(`c8\r\n${'y'.repeat(200)}\r\n0\r\n\r\n`)
  await waitUntil('the first answer came', () => socket.received().includes('HTTP/1.1 413'))
  socket.write(`${head('Content-Length: 3')}tea`)
  await waitUntil('the second answer came', () => socket.received().includes('HTTP/1.1 200'))
  socket.destroy()
})

test('a preParsing hook behind it may decompress: the compressed bytes are compared', async () => {
  const gunzip = (app: FastifyInstance) =>
    app.addHook('preParsing', async ({ headers }, _reply, payload) => {
      if (headers['content-encoding'] !== 'gzip') return payload
      return Object.assign(payload.pipe(createGunzip()), { receivedEncodedLength: Number(headers['content-length']) })
    })
  const request = {
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: gzipSync('{"item":"tea"}'),
  }
  const behind = await startProtected(database, (app) => {
    gunzip(app)
    app.post('/work', async ({ body }) => body)
  })
  const [first, again] = await behind.twice(request)
  expect([jsonOf(first), isReplay(again)]).toEqual([{ item: 'tea' }, true])

  for (const fingerprint of ['raw', 'parsed'] as const) {
    const before = await start(database, async (app, { once }) => {
      gunzip(app)
      await app.register(idempotency(once, { tenant, afterFailure: 'rerun', fingerprint }))
      app.post('/work', async ({ body }) => body)
    })
    const answered = await before.send(request)
    // Decompressed before the layer could look: it says so, or makes do with what is left.
    if (fingerprint === 'raw') expect([answered.status, jsonOf(answered).code]).toEqual([500, 'raw_body_gone'])
    else expect([jsonOf(answered), isReplay(await before.send(request))]).toEqual([{ item: 'tea' }, true])
    if (fingerprint === 'parsed') expect((await before.send({ ...request, body: gzipSync('{"item":"coffee"}') })).status).toBe(422)
  }
})
