// However a handler writes its answer, the client gets it whole, and so does every retry.
import { createReadStream } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { finished, pipeline } from 'node:stream/promises'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type Handler, isReplay, replaysAlike, type Service, stacks, startService, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

interface Expected {
  readonly status?: number
  readonly body?: string
  readonly headers?: Readonly<Record<string, string[]>>
}

type Answer = (response: ServerResponse) => unknown

const ways: [name: string, answer: Answer, expected: Expected][] = [
  ['end() without data', (response) => response.end(), { body: '' }],
  ['end(text)', (response) => response.end('tea'), { body: 'tea' }],
  ['end(null)', (response) => response.end(null), { body: '' }],
  ['end(empty text)', (response) => response.end(''), { body: '' }],
  ['end(Buffer)', (response) => response.end(Buffer.from('tea')), { body: 'tea' }],
  ['end(Uint8Array)', (response) => response.end(new TextEncoder().encode('tea')), { body: 'tea' }],
  ['end(hex)', (response) => response.end('746561', 'hex'), { body: 'tea' }],
  ['write(base64), end(latin1)', (response) => response.write('dGVh', 'base64') && response.end('\xe9', 'latin1'), { body: 'tea\xe9' }],
  ['write(utf16le)', (response) => response.write('t', 'utf16le') && response.end(), { body: 't\0' }],
  [
    'write() and end() many times over',
    (response) => {
      for (const letter of 'a pot of tea') response.write(letter)
      response.end('!')
    },
    { body: 'a pot of tea!' },
  ],
  ['statusCode and setHeader', (response) => writtenLate(response), { status: 202, body: 'tea', headers: { 'x-pot': ['1', '2'] } }],
  [
    'writeHead(status, object)',
    (response) =>
      response
        .setHeader('x-pot', '0')
        .writeHead(202, { 'X-Pot': ['1', '2'] })
        .end('tea'),
    { status: 202, body: 'tea', headers: { 'x-pot': ['1', '2'] } },
  ],
  [
    'writeHead(status, flat list)',
    (response) => response.setHeader('x-pot', '0').writeHead(202, ['X-Pot', '1', 'x-cup', 'a', 'x-pot', '2']).end('tea'),
    { status: 202, body: 'tea', headers: { 'x-pot': ['1', '2'], 'x-cup': ['a'] } },
  ],
  [
    'writeHead(status, pairs)',
    (response) => response.writeHead(202, [['X-Pot', '1'] as never, ['x-pot', '2'] as never]).end('tea'),
    { status: 202, body: 'tea', headers: { 'x-pot': ['1', '2'] } },
  ],
  [
    'writeHead(status, message, object)',
    (response) => response.writeHead(202, 'Brewing', { 'x-pot': '1' }).end(),
    { status: 202, body: '', headers: { 'x-pot': ['1'] } },
  ],
  ['writeHead(status as text)', (response) => response.writeHead('202' as never).end(), { status: 202 }],
  [
    'flushHeaders(), and the body later',
    async (response) => {
      response.statusCode = 202
      response.flushHeaders()
      await new Promise((resolve) => setImmediate(resolve))
      response.end('tea')
    },
    { status: 202, body: 'tea' },
  ],
  [
    'appendHeader and setHeaders',
    (response) => {
      response.setHeaders(new Map([['x-pot', '1']]))
      response.appendHeader('x-pot', '2').appendHeader('x-pot', ['3', '4']).end()
    },
    { headers: { 'x-pot': ['1', '2', '3', '4'] } },
  ],
  ['a stream that is piped', (response) => Readable.from(['a pot ', 'of ', 'tea']).pipe(response), { body: 'a pot of tea' }],
  ['pipeline()', (response) => pipeline(Readable.from(['a pot ', 'of ', 'tea']), response), { body: 'a pot of tea' }],
  [
    'end(), and then finished()',
    async (response) => {
      response.end('tea')
      await finished(response)
      if (!response.writableFinished) throw new Error('told too early')
    },
    { body: 'tea' },
  ],
  ['a body with a 204', (response) => response.writeHead(204, { 'x-pot': '1' }).end('tea'), { status: 204, body: '' }],
  ['a body with a 304', (response) => response.writeHead(304).end('tea'), { status: 304, body: '' }],
  [
    'a status that is changed after the head',
    (response) => {
      response.writeHead(202)
      response.statusCode = 500
      response.end('tea')
    },
    { status: 202, body: 'tea' },
  ],
  ['cork() and uncork()', (response) => corked(response), { body: 'tea' }],
  ['cork(), and never uncork()', (response) => (response.cork() as never) || response.end('tea'), { body: 'tea' }],
  [
    'writeHeader(), as Node called it once',
    (response) => old(response).writeHeader(202, { 'x-pot': '1' }).end('tea'),
    { status: 202, body: 'tea' },
  ],
  [
    'early hints before it',
    (response) => response.writeEarlyHints({ link: '</a.css>; rel=preload' }, () => response.end('tea')),
    { body: 'tea' },
  ],
]

const old = (response: ServerResponse) => response as ServerResponse & { writeHeader: ServerResponse['writeHead'] }

function writtenLate(response: ServerResponse): void {
  response.statusCode = 202
  response.setHeader('x-pot', ['1', '2'])
  response.end('tea')
}

function corked(response: ServerResponse): void {
  response.cork()
  response.write('t')
  response.write('ea')
  response.uncork()
  response.end()
}

describe.each(stacks)('%s', (_, stack) => {
  const start = (handler: Handler, onceOptions = {}): Promise<Service> =>
    startService(
      database,
      (parts) =>
        stack((request, response) => {
          if (request.method === 'POST') parts.ran()
          return handler(request, response)
        }, parts),
      onceOptions,
    )

  test.each(ways)('%s', async (_name, answer, { status = 200, body, headers = {} }) => {
    const service = await start((_request, response) => answer(response))
    const first = await replaysAlike(service, {}, Object.keys(headers))
    expect(first.status).toBe(status)
    if (body !== undefined) expect(first.body.toString('latin1')).toBe(body)
    for (const [name, lines] of Object.entries(headers)) expect([name, first.lines(name)]).toEqual([name, lines])
  })

  test('tells everybody who waits for it that it was written: write(), end(), finish, close', async () => {
    const told: string[] = []
    const service = await start((_request, response) => {
      response.on('finish', () => told.push('finish')).on('close', () => told.push('close'))
      response.write('a pot ', () => {
        told.push('write')
        response.write('of ', 'utf8', () => {
          told.push('write')
          response.end('tea', 'utf8', () => told.push('end'))
          response.end(() => told.push('end'))
        })
      })
    })
    expect((await replaysAlike(service)).body.toString()).toBe('a pot of tea')
    await waitUntil('close is told', () => told.includes('close'))
    expect(told).toEqual(['write', 'write', 'finish', 'end', 'end', 'close'])
  })

  test('is not changed by what its memory is used for after write() said that it is written', async () => {
    const service = await start((_request, response) => {
      const memory = Buffer.from('tea')
      response.write(memory, () => {
        memory.write('mud')
        response.end(memory)
      })
    })
    expect((await replaysAlike(service)).body.toString()).toBe('teamud')
  })

  test('end() twice, write() after end(), and headers after end() change nothing', async () => {
    const errors: unknown[] = []
    const service = await start((_request, response) => {
      response.setHeader('x-pot', '1')
      response.end('tea')
      response.end('mud')
      response.end()
      response.write('mud', (error) => errors.push(error?.message))
      for (const late of [
        () => response.setHeader('x-pot', '2'),
        () => response.appendHeader('x-pot', '2'),
        () => response.removeHeader('x-pot'),
        () => response.writeHead(500),
      ]) {
        expect(late).toThrow()
      }
    })
    const first = await replaysAlike(service, {}, ['x-pot'])
    expect([first.status, first.body.toString(), first.lines('x-pot')]).toEqual([200, 'tea', ['1']])
    expect(errors).toEqual(['The response was ended already.'])
  })

  test.each<[string, Answer]>([
    ['a status that is none', (response) => response.writeHead(99)],
    ['a status message with a line break', (response) => response.writeHead(200, 'a\r\nb')],
    ['a header with a line break', (response) => response.writeHead(200, { 'x-pot': 'a\r\nb' })],
    ['a number as a body', (response) => response.end(1 as never)],
    ['an object as a body', (response) => response.write({} as never)],
  ])('throws %s at the handler, as Node does', async (_name, wrong) => {
    const service = await start((_request, response) => {
      expect(() => wrong(response)).toThrow()
      response.end('tea')
    })
    expect((await replaysAlike(service)).body.toString()).toBe('tea')
  })

  test('sends trailers to the first caller; a replay has none', async () => {
    const service = await start((_request, response) => {
      response.setHeader('trailer', 'x-sum')
      response.write('tea')
      response.addTrailers({ 'x-sum': '3' })
      response.end()
    })
    const { headers } = await fetch(service.url, { method: 'GET' })
    expect(headers.get('trailer')).toBe('x-sum')
    const first = await replaysAlike(service)
    expect([first.lines('trailer'), first.body.toString()]).toEqual([['x-sum'], 'tea'])
    expect((await service.send()).lines('trailer')).toEqual([])
  })

  test('sends a file with pipeline(), more than the cap of it', async () => {
    const file = join(tmpdir(), `oncekey-${crypto.randomUUID()}`)
    await writeFile(file, 'tea'.repeat(100_000))
    const service = await start((_request, response) => pipeline(createReadStream(file), response), { maxAnswerBytes: 100_000 })
    const first = await service.send()
    expect(first.body.equals(await readFile(file))).toBe(true)
    const again = await service.send()
    expect([again.status, isReplay(again), service.runs()]).toEqual([410, true, 1])
  })

  test.each<[string, (response: ServerResponse) => unknown]>([
    ['before its first byte', () => {}],
    ['after its first byte', (response) => response.write('a pot ')],
    ['after so much that it flows', (response) => response.write('x'.repeat(600)) && response.write('x'.repeat(600))],
  ])('a stream that fails %s: the client hears no whole answer, and a retry runs again', async (_name, write) => {
    const service = await start(
      async (_request, response) => {
        if (service.runs() > 1) return response.end('tea')
        write(response)
        await pipeline(
          new Readable({
            read() {
              this.destroy(new Error('the disk is gone'))
            },
          }),
          response,
        ).catch(() => {})
      },
      { maxAnswerBytes: 1_000 },
    )
    await expect(service.send()).rejects.toThrow()
    await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
    expect((await service.send()).body.toString()).toBe('tea')
    expect(service.runs()).toBe(2)
  })

  test.each<[string, Handler]>([
    ['its response', (_request, response) => response.destroy()],
    ['its response, with an error', (_request, response) => response.destroy(new Error('no'))],
    ['its request', (request) => request.destroy()],
    ['the socket of its request', (request) => request.socket.destroy()],
    ['the socket of its response', (_request, response) => response.socket?.destroy()],
  ])('a handler that destroys %s: the client is cut off, and a retry runs again', async (_name, destroy) => {
    const service = await start((request, response) => {
      if (service.runs() > 1) return response.end('tea')
      response.write('a pot')
      return destroy(request, response)
    })
    await expect(service.send()).rejects.toThrow()
    await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
    expect((await service.send()).body.toString()).toBe('tea')
  })

  test('a handler that fails in the middle of its answer: the client is cut off, and a retry runs again', async () => {
    const service = await start((_request, response) => {
      if (service.runs() > 1) return response.end('tea')
      response.write('a pot ')
      throw new Error('out of tea')
    })
    await expect(service.send()).rejects.toThrow()
    await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
    expect((await service.send()).body.toString()).toBe('tea')
  })

  test('HEAD and OPTIONS with a key are not touched', async () => {
    const service = await start((request, response) => response.end(request.method))
    for (const method of ['HEAD', 'OPTIONS', 'HEAD', 'OPTIONS']) {
      const answered = await service.send({ method, body: null, headers: {} })
      expect([answered.body.toString(), isReplay(answered)]).toEqual([method === 'HEAD' ? '' : method, false])
    }
  })
})
