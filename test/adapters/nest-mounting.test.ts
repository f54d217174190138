import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Module,
  type NestInterceptor,
  UnauthorizedException,
  UseInterceptors,
} from '@nestjs/common'
import { APP_GUARD, APP_INTERCEPTOR } from '@nestjs/core'
import express from 'express'
import { lastValueFrom, of } from 'rxjs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { IdempotencyModule, Idempotent, idempotency, type NestRequest } from '../../src/adapters/nest.js'
import { useDatabase } from '../support/postgres/database.js'
import { listen } from './listen.js'
import { decorated, type NestSetup, platforms, type Running, start, startProtected, tenant, workController } from './nest-app.js'
import { clientOf, isReplay, jsonOf, openService, type Service, textOf } from './service.js'

const database = useDatabase()

/** A handler that says how often it ran. */
function counting(): () => Promise<{ runs: number }> {
  let runs = 0
  return async () => ({ runs: ++runs })
}

const failing = async () => {
  throw new Error('no provider')
}

const options = { tenant, afterFailure: 'rerun' } as const

describe.each(platforms)('Nest on %s', (platform) => {
  async function isProtected(running: Running): Promise<void> {
    const [first, again] = await running.twice()
    expect([first.status, jsonOf(again), isReplay(again)]).toEqual([200, { runs: 1 }, true])
    expect(running.events).toEqual(['executing', 'finished', 'replayed'])
    expect(running.log).toEqual([])
  }

  test('app.useGlobalInterceptors()', async () => {
    const build = ({ once }: Service): NestSetup => ({
      controllers: [workController(counting())],
      main: (app) => app.useGlobalInterceptors(idempotency(once, options)),
    })
    await isProtected(await start(database, platform, build))
  })

  test('IdempotencyModule.forRoot(), imported once or twice, protects controllers of all modules', async () => {
    class OrdersModule {}
    Module({ controllers: [workController(counting())] })(OrdersModule)
    const build = ({ once }: Service): NestSetup => ({
      imports: [IdempotencyModule.forRoot(once, options), OrdersModule, IdempotencyModule.forRoot(once, options)],
    })
    await isProtected(await start(database, platform, build))
  })

  test('a provider of APP_INTERCEPTOR, with what it needs injected', async () => {
    const build = ({ once }: Service): NestSetup => ({
      controllers: [workController(counting())],
      providers: [
        { provide: 'ONCE', useValue: once },
        { provide: APP_INTERCEPTOR, useFactory: (injected: typeof once) => idempotency(injected, options), inject: ['ONCE'] },
      ],
    })
    await isProtected(await start(database, platform, build))
  })

  test('@UseInterceptors() on a controller, with the global one in front of it too', async () => {
    const build = ({ once }: Service): NestSetup => ({
      controllers: [workController(counting(), { on: [UseInterceptors(idempotency(once, options))] })],
    })
    await isProtected(await start(database, platform, build))
    await isProtected(await startProtected(database, platform, build))
  })

  test.each<[string, Parameters<typeof workController>[1]]>([
    ['a route', { decorators: [Idempotent(false)] }],
    ['a controller', { on: [Idempotent(false)] }],
    ['a route, whatever its controller says', { decorators: [Idempotent(false)], on: [Idempotent({ required: true })] }],
  ])('@Idempotent(false) leaves %s alone', async (_, decorators) => {
    const running = await startProtected(database, platform, () => ({ controllers: [workController(counting(), decorators)] }))
    const [, again] = await running.twice()
    expect([jsonOf(again), isReplay(again), running.events]).toEqual([{ runs: 2 }, false, []])
  })

  test.each<[string, Parameters<typeof workController>[1]]>([
    ['a route', { decorators: [Idempotent({ afterFailure: 'park' })] }],
    ['a controller', { on: [Idempotent({ afterFailure: 'park' })] }],
    ['a route, on top of its controller', { decorators: [Idempotent({ lease: '5m' })], on: [Idempotent({ afterFailure: 'park' })] }],
    ['a route, before its controller', { decorators: [Idempotent({ afterFailure: 'park' })], on: [Idempotent({ afterFailure: 'store' })] }],
    ['a route of a controller that is not protected', { decorators: [Idempotent({ afterFailure: 'park' })], on: [Idempotent(false)] }],
  ])('@Idempotent({ … }) has other options for %s', async (_, decorators) => {
    const running = await startProtected(database, platform, () => ({ controllers: [workController(failing, decorators)] }))
    const [first, again] = await running.twice()
    expect([first.status, jsonOf(again).code]).toEqual([500, 'outcome_unknown'])
  })

  test('one method in two controllers has the options of each', async () => {
    const Common = workController(failing)
    class Parked extends Common {}
    class Rerun extends Common {}
    decorated(Parked, { on: [Controller('parked'), Idempotent({ afterFailure: 'park' })] })
    decorated(Rerun, { on: [Controller('rerun')] })
    const running = await startProtected(database, platform, () => ({ controllers: [Parked, Rerun] }))
    expect(jsonOf((await running.twice({ path: '/parked/work' }))[1]).code).toBe('outcome_unknown')
    expect(jsonOf((await running.twice({ path: '/rerun/work' }))[1]).code).toBe(undefined)
  })

  test('a wrong option of a route is told at its first request, and nothing runs', async () => {
    const work = counting()
    const controller = workController(work, { decorators: [Idempotent({ afterFailure: 'perhaps' as 'park' })] })
    const running = await startProtected(database, platform, () => ({ controllers: [controller] }))
    expect((await running.send()).status).toBe(500)
    expect(running.log.join()).toContain('afterFailure is perhaps')
    expect(await work()).toEqual({ runs: 1 })
  })

  test('a guard comes first: its 401 is not stored, nor is a stored answer shown to whom it refuses', async () => {
    const guard = {
      canActivate(context: ExecutionContext) {
        const { headers } = context.switchToHttp().getRequest<NestRequest>()
        if (headers.authorization !== 'good') throw new UnauthorizedException()
        return true
      },
    }
    const running = await startProtected(database, platform, () => ({
      controllers: [workController(counting())],
      providers: [{ provide: APP_GUARD, useValue: guard }],
    }))
    const headers = { 'content-type': 'application/json', authorization: 'good' }
    expect((await running.send()).status).toBe(401)
    expect(running.events).toEqual([])
    expect(jsonOf(await running.send({ headers }))).toEqual({ runs: 1 })
    const stranger = await running.send()
    expect([stranger.status, isReplay(stranger)]).toEqual([401, false])
    expect(isReplay(await running.send({ headers }))).toBe(true)
  })

  test('a tenant that cannot be told is an error of the service: nothing runs', async () => {
    let known = false
    const work = counting()
    const running = await start(database, platform, ({ once, tenant: caller }) => {
      const whose = () => {
        if (known) return caller
        throw new Error('no session')
      }
      return { controllers: [workController(work)], imports: [IdempotencyModule.forRoot(once, { tenant: whose, afterFailure: 'park' })] }
    })
    expect((await running.send()).status).toBe(500)
    expect([running.log.join().includes('no session'), running.events]).toEqual([true, []])
    known = true
    expect(jsonOf(await running.send())).toEqual({ runs: 1 })
  })

  test('the handler is in the async context of the middleware before it', async () => {
    const storage = new AsyncLocalStorage<string>()
    const running = await startProtected(database, platform, () => ({
      controllers: [workController(() => storage.getStore())],
      main: (app) =>
        app.use((request: NestRequest, _response: unknown, next: () => void) => storage.run(String(request.headers['x-name']), next)),
    }))
    const headers = { 'content-type': 'application/json', 'x-name': 'the first' }
    expect(textOf(await running.send({ headers }))).toBe('the first')
  })

  test('a replay does not even ask what is behind it, which may begin to work when it is asked', async () => {
    let asked = 0
    const running = await start(database, platform, ({ once }) => {
      const layer = idempotency(once, options)
      const eager: NestInterceptor = {
        intercept: (context, next) =>
          layer.intercept(context, {
            handle() {
              asked += 1
              return next.handle()
            },
          }),
      }
      return { controllers: [workController(counting())], providers: [{ provide: APP_INTERCEPTOR, useValue: eager }] }
    })
    expect(isReplay((await running.twice())[1])).toBe(true)
    expect(asked).toBe(1)
  })

  test('a path where there is no route is none of its business', async () => {
    const running = await startProtected(database, platform, () => ({ controllers: [workController(counting())] }))
    const [first, again] = await running.twice({ path: '/nowhere' })
    expect([first.status, again.status, isReplay(again), running.events]).toEqual([404, 404, false, []])
  })

  test('the prefix and the version in a path are part of the key', async () => {
    const running = await startProtected(database, platform, () => ({
      controllers: [workController(counting())],
      main: (app) => app.setGlobalPrefix('api'),
    }))
    expect(isReplay((await running.twice({ path: '/api/work' }))[1])).toBe(true)
    expect(await running.stateOf('POST /api/work')).toBe('complete')
  })
})

test('an application that is mounted in another one: the key has the whole path', async () => {
  const outer = express()
  const { stateOf, tenant: caller } = await start(database, 'Express', ({ once }) => ({
    controllers: [workController(counting())],
    imports: [IdempotencyModule.forRoot(once, options)],
    main: (app) => void outer.use('/mounted', app.getHttpAdapter().getInstance()),
  }))
  const { url, close } = await listen(outer)
  onTestFinished(close)
  const [, again] = await clientOf(url, caller).twice({ path: '/mounted/work' })
  expect([isReplay(again), await stateOf('POST /mounted/work')]).toEqual([true, 'complete'])
})

test('a wrong option is an error at start', async () => {
  const { once } = await openService(database)
  expect(() => idempotency(once, { tenant, afterFailure: 'perhaps' as 'park' })).toThrow(
    expect.objectContaining({ code: 'option_invalid' }),
  )
  expect(() => IdempotencyModule.forRoot(once, { tenant: undefined as never, afterFailure: 'park' })).toThrow('tenant')
})

test.each([
  ['messages', 'rpc', [{ data: 1 }, {}]],
  ['sockets', 'ws', [{}, { data: 1 }]],
  ['queries of GraphQL', 'graphql', [{}, {}, {}, {}]],
  ['what says that it is HTTP and has no response', 'http', [{ message: 1 }]],
])('%s pass', async (_, type, args) => {
  const { once, events } = await openService(database)
  const context = {
    getType: () => type,
    getClass: () => Object,
    getHandler: () => failing,
    switchToHttp: () => ({ getRequest: () => args[0], getResponse: () => args[1] }),
  } as unknown as ExecutionContext
  const next: CallHandler = { handle: () => of('handled') }
  expect(await lastValueFrom(await idempotency(once, options).intercept(context, next))).toBe('handled')
  expect(events).toEqual([])
})
