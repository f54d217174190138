// The ways in which Express answers.
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import type { NextFunction, Request, Response } from 'express'
import { beforeAll, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { frameworks, startExpress } from './express-service.js'
import { isReplay, replaysAlike, useQuietProcess } from './node-service.js'

const database = useDatabase()
useQuietProcess()

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'oncekey-'))
  await writeFile(join(folder, 'tea.txt'), 'a pot of tea')
})

type Answer = (response: Response, request: Request, next: NextFunction) => unknown

const ways: [name: string, answer: Answer, status: number, body: string | RegExp, names?: string[]][] = [
  ['json(object)', (response) => response.status(201).json({ item: 'tea' }), 201, '{"item":"tea"}', ['etag']],
  ['json(null)', (response) => response.json(null), 200, 'null'],
  ['send(text)', (response) => response.send('<b>tea</b>'), 200, '<b>tea</b>', ['etag']],
  ['send(Buffer)', (response) => response.send(Buffer.from('tea')), 200, 'tea', ['etag']],
  ['send(object)', (response) => response.send({ item: 'tea' }), 200, '{"item":"tea"}'],
  ['send()', (response) => response.status(204).send(), 204, ''],
  ['send() with a 205', (response) => response.status(205).send('tea'), 205, ''],
  ['jsonp()', (response) => response.jsonp({ item: 'tea' }), 200, '{"item":"tea"}', ['x-content-type-options']],
  ['sendStatus()', (response) => response.sendStatus(402), 402, 'Payment Required'],
  ['redirect()', (response) => response.redirect(303, '/orders/1'), 303, /Redirecting to/, ['location', 'vary']],
  ['location(), links(), vary(), append()', (response) => headed(response), 200, '', ['location', 'link', 'vary', 'x-pot']],
  ['format()', (response) => response.format({ json: () => response.json({ item: 'tea' }) }), 200, '{"item":"tea"}', ['vary']],
  [
    'sendFile()',
    (response) => response.sendFile('tea.txt', { root: folder }),
    200,
    'a pot of tea',
    ['etag', 'last-modified', 'accept-ranges'],
  ],
  [
    'sendFile(), of which the client wants a part',
    (response, request) => {
      request.headers.range = 'bytes=2-4'
      response.sendFile('tea.txt', { root: folder })
    },
    206,
    'pot',
    ['content-range'],
  ],
  ['sendFile() of a file that is not there', (response) => response.sendFile('mud.txt', { root: folder }), 404, /^error: /],
  ['download()', (response) => response.download(join(folder, 'tea.txt'), 'a.txt'), 200, 'a pot of tea', ['content-disposition']],
  ['attachment()', (response) => response.attachment('tea.json').send('tea'), 200, 'tea', ['content-disposition']],
  ['a stream that is piped', (response) => Readable.from(['a pot ', 'of tea']).pipe(response.type('text')), 200, 'a pot of tea'],
  [
    'next(error) with a status',
    (_response, _request, next) => next(Object.assign(new Error('no tea'), { status: 409 })),
    409,
    'error: no tea',
  ],
  ['next(), and no other handler', (_response, _request, next) => next(), 404, /Cannot POST/, ['content-security-policy']],
]

function headed(response: Response): void {
  response.location('/orders/1').links({ next: '/orders/2' }).vary('Accept').vary('Origin')
  response.append('X-Pot', '1').append('X-Pot', '2').end()
}

describe.each(frameworks)('%s', (_, framework) => {
  const start = (answer: Answer) =>
    startExpress(framework, database, (app, { protect, ran, keepErrors }) => {
      app.use(protect())
      app.post('/work', (request, response, next) => {
        ran()
        answer(response, request, next)
      })
      app.use(keepErrors)
    })

  test.each(ways)('%s', async (_name, answer, status, body, names = []) => {
    const service = await start(answer)
    const first = await replaysAlike(service, {}, names)
    expect(first.status).toBe(status)
    if (typeof body === 'string') expect(first.body.toString()).toBe(body)
    else expect(first.body.toString()).toMatch(body)
    for (const name of names) expect([name, first.lines(name).length > 0]).toEqual([name, true])
  })

  test('cookies are set by the first answer only', async () => {
    const service = await start((response) => response.cookie('pot', '1').cookie('cup', '2').clearCookie('old').json({}))
    const first = await service.send()
    const again = await service.send()
    expect([first.lines('set-cookie').length, isReplay(again), again.lines('set-cookie')]).toEqual([3, true, []])
  })

  test('a status message of its own reaches the first caller', async () => {
    const service = await start((response) => {
      response.statusMessage = 'Brewed'
      response.json({})
    })
    const post = () => fetch(`${service.url}/work`, { method: 'POST', headers: { 'idempotency-key': '"key-1"' } })
    expect([(await post()).statusText, (await post()).statusText]).toEqual(['Brewed', 'OK'])
  })

  test('a handler that answers twice: the first answer counts', async () => {
    const service = await start((response) => {
      response.status(201).json({ item: 'tea' })
      response.status(202).json({ item: 'mud' })
    })
    const first = await replaysAlike(service)
    expect([first.status, first.body.toString()]).toEqual([201, '{"item":"tea"}'])
  })

  test("a handler that answers and then throws: its answer counts, and Express's own error handler breaks nothing", async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', (_request, response) => {
        ran()
        response.status(201).json({ item: 'tea' })
        throw new Error('too late')
      })
    })
    expect((await replaysAlike(service)).status).toBe(201)
  })

  test.each(['throws', 'calls next(error)'])(
    'a handler that %s in the middle of its answer is cut off, and a retry runs again',
    async (how) => {
      const service = await startExpress(framework, database, (app, { protect, ran }) => {
        app.use(protect())
        app.post('/work', (_request, response, next) => {
          if (ran() > 1) return response.send('tea')
          response.write('a pot ')
          if (how === 'throws') throw new Error('out of tea')
          return next(new Error('out of tea'))
        })
      })
      await expect(service.send()).rejects.toThrow()
      await waitUntil('the key is free', async () => (await service.keyState()) === 'pending')
      expect((await service.send()).body.toString()).toBe('tea')
    },
  )

  test("what throws without a body, and without an error handler, is Express's own 500, and a retry runs again", async () => {
    const service = await startExpress(framework, database, (app, { protect, ran }) => {
      app.use(protect())
      app.post('/work', (_request, response) => {
        if (ran() > 1) response.send('tea')
        else throw new Error('out of tea')
      })
    })
    const failed = await service.send()
    expect([failed.status, failed.body.toString()]).toEqual([500, expect.stringContaining('out of tea')])
    expect((await service.send()).body.toString()).toBe('tea')
  })

  test('a tenant that throws goes to the error handler, and nothing runs', async () => {
    const service = await startExpress(framework, database, (app, { protect, ran, keepErrors }) => {
      const tenant = () => {
        throw Object.assign(new Error('who are you?'), { status: 401 })
      }
      app.use(protect({ tenant }))
      app.post('/work', (_request, response) => {
        ran()
        response.end()
      })
      app.use(keepErrors)
    })
    const answered = await service.send()
    expect([answered.status, answered.body.toString(), service.runs()]).toEqual([401, 'error: who are you?', 0])
  })
})
