import { Readable } from 'node:stream'
import {
  type ArgumentsHost,
  BadRequestException,
  Body,
  type CallHandler,
  type ExecutionContext,
  Header,
  HttpCode,
  HttpException,
  type NestInterceptor,
  type PipeTransform,
  Redirect,
  Req,
  Res,
  StreamableFile,
} from '@nestjs/common'
import { APP_FILTER, APP_INTERCEPTOR } from '@nestjs/core'
import { catchError, from, map, of, retry, tap, throwError } from 'rxjs'
import { describe, expect, test } from 'vitest'
import { IdempotencyModule, Idempotent, type NestRequest, type NestResponse, serve } from '../../src/adapters/nest.js'
import { reply } from '../../src/index.js'
import type { Answered } from '../../src/testing/adapter-cases/client.js'
import { useDatabase } from '../support/postgres/database.js'
import { type AnyResponse, type NestSetup, platforms, type Running, start, startProtected, tenant, workController } from './nest-app.js'
import { isReplay, jsonOf, type Service, textOf } from './service.js'

const database = useDatabase()

/** The headers that must be the same in a replay. */
const kept = ['content-type', 'content-disposition', 'location', 'x-custom']

describe.each(platforms)('Nest on %s', (platform) => {
  async function replaysAlike(running: Running): Promise<Answered> {
    const [first, again] = await running.twice()
    expect([isReplay(first), isReplay(again)]).toEqual([false, true])
    expect(again.status).toBe(first.status)
    expect(again.body).toEqual(first.body)
    for (const name of kept) expect(again.lines(name), name).toEqual(first.lines(name))
    expect(running.log).toEqual([])
    return first
  }

  const working = (work: (...args: never[]) => unknown, decorators?: Parameters<typeof workController>[1]): Promise<Running> =>
    startProtected(database, platform, () => ({ controllers: [workController(work, decorators)] }))

  test.each<[string, () => unknown, string]>([
    ['an object', () => ({ ok: true }), '{"ok":true}'],
    ['a text', () => 'hello', 'hello'],
    ['a promise', async () => ({ ok: true }), '{"ok":true}'],
    ['an observable', () => of({ ok: true }), '{"ok":true}'],
    ['an observable of several: the last one', () => from([1, 2, { ok: true }]), '{"ok":true}'],
    ['a promise of an observable', async () => of({ ok: true }), '{"ok":true}'],
    ['nothing', () => undefined, ''],
    ['a StreamableFile of bytes', () => new StreamableFile(Buffer.from('bytes')), 'bytes'],
    ['a StreamableFile of a stream', () => new StreamableFile(Readable.from(['one ', 'two']), { type: 'text/csv' }), 'one two'],
    ['a Response', () => new Response('made', { headers: { 'x-custom': 'kept' } }), 'made'],
    ['a web stream', () => new Blob(['web ', 'stream']).stream(), 'web stream'],
    [
      'an async generator',
      async function* () {
        yield 'one '
        yield 'two'
      },
      'one two',
    ],
  ])('a handler returns %s', async (_, value, body) => {
    expect(textOf(await replaysAlike(await working(() => value())))).toBe(body)
  })

  test('@HttpCode(), @Header() and a StreamableFile with a name', async () => {
    const running = await working(
      () => new StreamableFile(Buffer.from('a,b'), { type: 'text/csv', disposition: 'attachment; filename="a.csv"' }),
      {
        decorators: [HttpCode(202), Header('x-custom', 'kept')],
      },
    )
    const first = await replaysAlike(running)
    expect([first.status, ...kept.map((name) => first.lines(name).join())]).toEqual([
      202,
      'text/csv',
      'attachment; filename="a.csv"',
      '',
      'kept',
    ])
  })

  test('@Redirect(), as it is and as the handler changes it', async () => {
    const fixed = await replaysAlike(await working(() => undefined, { decorators: [Redirect('/orders', 303)] }))
    expect([fixed.status, fixed.lines('location')]).toEqual([303, ['/orders']])
    const changed = await replaysAlike(await working(() => ({ url: '/orders/1', statusCode: 307 }), { decorators: [Redirect('/orders')] }))
    expect([changed.status, changed.lines('location')]).toEqual([307, ['/orders/1']])
  })

  test('@Res(): the handler answers by itself, now or later', async () => {
    const now = (response: AnyResponse) => void response.status(201).header('x-custom', 'kept').send({ ok: true })
    const first = await replaysAlike(await working(now, { parameters: [Res()] }))
    expect([first.status, jsonOf(first), first.lines('x-custom')]).toEqual([201, { ok: true }, ['kept']])
    const later = (response: AnyResponse) => void setImmediate(() => response.status(202).send('later'))
    expect(textOf(await replaysAlike(await working(later, { parameters: [Res()] })))).toBe('later')
  })

  test('@Res({ passthrough: true }): the handler sets, Nest sends', async () => {
    const work = (response: AnyResponse) => {
      response.status(201).header('x-custom', 'kept')
      return { ok: true }
    }
    const first = await replaysAlike(await working(work, { parameters: [Res({ passthrough: true })] }))
    expect([first.status, jsonOf(first), first.lines('x-custom')]).toEqual([201, { ok: true }, ['kept']])
  })

  test('an exception of 4xx is stored and replayed as Nest tells it', async () => {
    let runs = 0
    const running = await working(() => {
      runs += 1
      throw new HttpException({ error: 'card_declined', runs }, 402)
    })
    const first = await replaysAlike(running)
    expect([first.status, jsonOf(first), runs]).toEqual([402, { error: 'card_declined', runs: 1 }, 1])
  })

  test.each([
    ['rerun', 'throws', [500, false], 2],
    ['rerun', 'observable', [500, false], 2],
    ['store', 'throws', [500, true], 1],
    ['park', 'throws', [500, false], 1],
  ] as const)('a 5xx is as afterFailure says: %s (%s)', async (afterFailure, how, again, expectedRuns) => {
    let runs = 0
    const work = () => {
      runs += 1
      if (how === 'observable') return throwError(() => new Error('no provider'))
      throw new HttpException('no provider', 500)
    }
    const running = await startProtected(database, platform, () => ({ controllers: [workController(work)] }), { options: { afterFailure } })
    const [first, second] = await running.twice()
    expect([first.status, [second.status, isReplay(second)], runs]).toEqual([500, again, expectedRuns])
  })

  test('what an exception filter answers is what is stored', async () => {
    const filter = {
      catch(error: Error, host: ArgumentsHost) {
        host.switchToHttp().getResponse<AnyResponse>().status(409).header('x-custom', 'kept').send({ told: error.message })
      },
    }
    const fail = () => {
      throw new Error('sold out')
    }
    const running = await startProtected(database, platform, () => ({
      controllers: [workController(fail)],
      providers: [{ provide: APP_FILTER, useValue: filter }],
    }))
    const first = await replaysAlike(running)
    expect([first.status, jsonOf(first)]).toEqual([409, { told: 'sold out' }])
  })

  test('pipes work inside of it: the 400 of one is stored like any other of the handler, and a corrected body needs a new key', async () => {
    const pipe: PipeTransform = {
      transform(body: { quantity?: unknown }) {
        if (typeof body.quantity !== 'number') throw new BadRequestException('quantity is a number')
        return body
      },
    }
    let runs = 0
    const running = await working(() => ({ runs: ++runs }), { parameters: [Body(pipe)] })
    expect((await replaysAlike(running)).status).toBe(400)
    expect((await running.send({ body: '{"quantity":1}' })).status).toBe(422)
    expect(jsonOf(await running.send({ body: '{"quantity":1}', key: '"key-2"' }))).toEqual({ runs: 1 })
  })

  /** In the order in which they stand there: the first one is the outermost. */
  const between = (before: NestInterceptor[], behind: NestInterceptor[], work: () => unknown): Promise<Running> =>
    start(database, platform, ({ once }: Service): NestSetup => {
      class Before {}
      class Behind {}
      const provide = (interceptors: NestInterceptor[]) => interceptors.map((useValue) => ({ provide: APP_INTERCEPTOR, useValue }))
      return {
        controllers: [workController(work)],
        imports: [
          { module: Before, providers: provide(before) },
          IdempotencyModule.forRoot(once, { tenant, afterFailure: 'rerun' }),
          { module: Behind, providers: provide(behind) },
        ],
      }
    })

  const mapping = (change: (value: never) => unknown): NestInterceptor => ({
    intercept: (_context: ExecutionContext, next: CallHandler) => next.handle().pipe(map((value) => change(value as never))),
  })

  test('interceptors in front of it and behind it shape the answer, which is stored as it left; those behind it do not run again', async () => {
    const seen: unknown[] = []
    const wrapping = (name: string) =>
      mapping((value) => {
        seen.push([name, value])
        return { [name]: value }
      })
    const running = await between([wrapping('before')], [wrapping('behind')], () => 'tea')
    expect(jsonOf(await replaysAlike(running))).toEqual({ before: { behind: 'tea' } })
    expect(seen).toEqual([
      ['behind', 'tea'],
      ['before', { behind: 'tea' }],
      ['before', undefined],
    ])
  })

  test('one in front of it that cannot bear undefined changes nothing for the client of a replay', async () => {
    let runs = 0
    const running = await between([mapping(({ id }: { id: number }) => ({ id }))], [], () => ({ id: ++runs }))
    const [first, again] = await running.twice()
    expect([first.status, jsonOf(first)]).toEqual([200, { id: 1 }])
    expect([again.status, jsonOf(again), isReplay(again)]).toEqual([200, { id: 1 }, true])
    expect([jsonOf(await running.send()), runs]).toEqual([{ id: 1 }, 1])
    // Its own mistake is in the log, and nothing else.
    expect(running.log.every((line) => line.includes("Cannot destructure property 'id'"))).toBe(true)
  })

  test('one in front of it that turns errors into answers sees those of the handler, and none of a replay', async () => {
    const caught: string[] = []
    const recovering: NestInterceptor = {
      intercept: (_context, next) =>
        next.handle().pipe(
          catchError((error: Error) => {
            caught.push(error.message)
            return of({ recovered: true })
          }),
        ),
    }
    const running = await between([recovering], [], () => {
      throw new Error('no provider')
    })
    expect(jsonOf(await replaysAlike(running))).toEqual({ recovered: true })
    expect(caught).toEqual(['no provider'])
  })

  test('one in front of it that subscribes again, as retry() does, runs the handler again, in the same attempt', async () => {
    let runs = 0
    const running = await between([{ intercept: (_context, next) => next.handle().pipe(retry(2)) }], [], () => {
      runs += 1
      if (runs < 3) throw new Error('not yet')
      return { runs }
    })
    expect(jsonOf(await replaysAlike(running))).toEqual({ runs: 3 })
    expect(running.events.filter((event) => event === 'executing').length).toBe(1)
  })

  test('one in front of it that logs sees the status of a replay', async () => {
    const seen: number[] = []
    const logging: NestInterceptor = {
      intercept: (context, next) =>
        next.handle().pipe(tap(() => void seen.push(context.switchToHttp().getResponse<AnyResponse>().statusCode))),
    }
    const running = await between([logging], [], () => ({ ok: true }))
    await running.twice()
    await running.send({ body: '{}' })
    expect(seen).toEqual([200, 200, 422])
  })

  test('headers that middleware in front of it sets are fresh in a replay, and in what the layer itself answers', async () => {
    let requests = 0
    const running = await startProtected(database, platform, () => ({
      controllers: [workController(() => 'done', { decorators: [Header('x-custom', 'kept')] })],
      main(app) {
        app.enableCors({ origin: true })
        app.use((_request: unknown, response: { setHeader(name: string, value: string): void }, next: () => void) => {
          requests += 1
          response.setHeader('x-request-number', String(requests))
          next()
        })
      },
    }))
    const seen = async (origin: string, body = '{}') => {
      const { status, lines } = await running.send({ body, headers: { 'content-type': 'application/json', origin } })
      return [status, ...['access-control-allow-origin', 'x-request-number', 'x-custom'].map((name) => lines(name).join())]
    }
    expect(await seen('https://a.example')).toEqual([200, 'https://a.example', '1', 'kept'])
    expect(await seen('https://b.example')).toEqual([200, 'https://b.example', '2', 'kept'])
    expect(await seen('https://c.example', '{"other":1}')).toEqual([422, 'https://c.example', '3', 'kept'])
  })

  test('serve() answers by itself, also where Nest would send something too', async () => {
    for (const passthrough of [false, true]) {
      const running = await startProtected(database, platform, ({ once }) => {
        const order = once.operation('nest.orders', {}, async (run, input) =>
          reply(201, { input, attempt: run.attempt }, { location: '/1' }),
        )
        const work = serve(order, { tenant })
        return { controllers: [workController(work, { decorators: [Idempotent(false)], parameters: [Req(), Res({ passthrough })] })] }
      })
      const first = await replaysAlike(running)
      expect([first.status, jsonOf(first), first.lines('location')]).toEqual([201, { input: { item: 'tea' }, attempt: 1 }, ['/1']])
    }
  })

  test('what an operation throws goes to the exception filters, and a retry resumes', async () => {
    const running = await startProtected(database, platform, ({ once }) => {
      const order = once.operation('nest.throws', {}, async (run) => {
        if (run.attempt === 1) throw new HttpException('not yet', 503)
        return reply(201, { attempt: run.attempt })
      })
      const answer = serve(order, { tenant })
      const work = (request: NestRequest, response: NestResponse) => answer(request, response)
      return { controllers: [workController(work, { decorators: [Idempotent(false)], parameters: [Req(), Res()] })] }
    })
    const [first, again] = await running.twice()
    expect([first.status, jsonOf(first).message, again.status, jsonOf(again)]).toEqual([503, 'not yet', 201, { attempt: 2 }])
  })
})
