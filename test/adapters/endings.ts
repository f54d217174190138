import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import type { IdempotencyOptions } from '../../src/http/options.js'
import { runOf } from '../../src/http/run-of.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { rawConnection, rawRequest } from '../../src/testing/adapter-cases/client.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { clientOf, isReplay, jsonOf, oneConnection, openService, type Service, type ServiceOptions, textOf } from './service.js'

/** An application whose only route is `POST /work`. */
interface EndingApp {
  readonly service: Service
  readonly options: Pick<IdempotencyOptions<unknown>, 'maxRun' | 'whenInProgress' | 'wait'>
  /** Give it the framework's request, and answer what it returns as a user of the framework would. */
  handle(request: object): Promise<unknown>
}

export type StartEndingApp = (app: EndingApp) => Promise<{ readonly url: string; close(): Promise<unknown> }>

/** How an exchange can end other than by an answer: the same for every framework on Node. */
export function exerciseEndings(database: TestDatabase, startApp: StartEndingApp): void {
  async function start(handle: EndingApp['handle'], options: EndingApp['options'] = {}, once: ServiceOptions = {}) {
    const service = await openService(database, once)
    const { url, close } = await startApp({ service, options, handle })
    onTestFinished(async () => void (await close()))
    /** A client that sends its request and says how it hangs up. */
    const leaver = async (body: string | null = '{"item":"tea"}') => {
      const socket = await rawConnection(url)
      const { tenant } = service
      const bare = `POST /work HTTP/1.1\r\nHost: localhost\r\nX-Tenant: ${tenant}\r\nIdempotency-Key: "key-1"\r\n\r\n`
      socket.write(body === null ? bare : rawRequest({ path: '/work', tenant, key: '"key-1"', body }))
      return {
        async leave() {
          socket.resetAndDestroy()
          // A whole round trip of another client, so that the server has noticed.
          await clientOf(url, service.tenant).send({ key: null, path: '/elsewhere' })
        },
      }
    }
    return { ...service, ...clientOf(url, service.tenant), url, leaver }
  }

  test('runOf(once, request) is the run: its attempt, its key, and phases that are not done again', async () => {
    let phases = 0
    const { send, once } = await start(async (request) => {
      const run = runOf(once, request)
      if (!run) return { run: 'none' }
      const made = await run.phase('made', () => ({ number: ++phases }))
      if (run.attempt === 1) throw new Error('again')
      return { ...made, attempt: run.attempt, key: run.idempotencyKey }
    })
    expect((await send()).status).toBe(500)
    expect(jsonOf(await send())).toEqual({ number: 1, attempt: 2, key: 'key-1' })
    expect(jsonOf(await send({ key: null }))).toEqual({ run: 'none' })
  })

  test('the client goes while its key is being claimed: the work is done, and a retry replays it', async () => {
    const [reached, go] = [new Gate(), new Gate()]
    const before = async (verb: string) => {
      if (verb !== 'keyClaim') return
      reached.open()
      await go.opened
    }
    let runs = 0
    const { leaver, stateOf, send } = await start(async () => ({ runs: ++runs }), {}, { before })
    const client = await leaver()
    await reached.opened
    await client.leave()
    go.open()
    await waitUntil('the answer is stored', async () => (await stateOf()) === 'complete')
    expect([jsonOf(await send()), runs]).toEqual([{ runs: 1 }, 1])
  })

  test.each([
    ['with a body', { body: '{"item":"tea"}' }],
    ['without one', { body: null, headers: {} }],
  ])('the client goes while the handler works, which then returns nothing (%s): that is stored, and not waited for', async (_, request) => {
    const [reached, go] = [new Gate(), new Gate()]
    const { leaver, stateOf, send } = await start(async () => {
      reached.open()
      await go.opened
    })
    const client = await leaver(request.body)
    await reached.opened
    await client.leave()
    go.open()
    await waitUntil('the answer is stored', async () => (await stateOf()) === 'complete')
    const again = await send(request)
    expect([isReplay(again), textOf(again)]).toEqual([true, ''])
  })

  test('the client goes while its answer is being stored: a retry replays it', async () => {
    const [reached, go] = [new Gate(), new Gate()]
    const before = async (verb: string) => {
      if (verb !== 'keyFinish') return
      reached.open()
      await go.opened
    }
    const { leaver, stateOf, send } = await start(async () => ({ ok: true }), {}, { before })
    const client = await leaver()
    await reached.opened
    await client.leave()
    go.open()
    await waitUntil('the answer is stored', async () => (await stateOf()) === 'complete')
    expect(isReplay(await send())).toBe(true)
  })

  test('the client goes while it waits for a replay: nothing runs for it, and the next one gets it', async () => {
    let claims = 0
    const [reached, go] = [new Gate(), new Gate()]
    const before = async (verb: string) => {
      if (verb !== 'keyClaim') return
      claims += 1
      if (claims !== 2) return
      reached.open()
      await go.opened
    }
    let runs = 0
    const { leaver, send, events } = await start(async () => ({ runs: ++runs }), {}, { before })
    await send()
    const client = await leaver()
    await reached.opened
    await client.leave()
    go.open()
    await waitUntil('it was replayed to nobody', () => events.includes('replayed'))
    expect([isReplay(await send()), runs]).toEqual([true, 1])
  })

  test('the client goes while the handler works, and the handler fails: the key is free for a retry', async () => {
    const [reached, go] = [new Gate(), new Gate()]
    let runs = 0
    const { leaver, send, events } = await start(async () => {
      runs += 1
      if (runs > 1) return { runs }
      reached.open()
      await go.opened
      throw new Error('no provider')
    })
    const client = await leaver()
    await reached.opened
    await client.leave()
    go.open()
    await waitUntil('the key is given back', () => events.includes('released'))
    expect(jsonOf(await send())).toEqual({ runs: 2 })
  })

  test.each([
    ['answers', async () => ({ late: true })],
    ['streams', async () => Readable.from(['late ', 'bytes'])],
    [
      'throws',
      async () => {
        throw new Error('late')
      },
    ],
  ])('a handler that hangs past maxRun: 503; that it %s later harms nobody, and its connection goes on', async (_, late) => {
    const go = new Gate()
    let over: Promise<unknown> | undefined
    const handle = async (request: object) => {
      if (over) return { attempt: runOf(once, request)?.attempt ?? 'unprotected' }
      over = go.opened.then<unknown>(late)
      return over
    }
    const { url, advance, events, once, ...service } = await start(handle, { maxRun: '50ms' })
    const connection = oneConnection(url, service.tenant)
    onTestFinished(connection.close)
    const first = await connection.post('key-1')
    expect([first.status, JSON.parse(first.text).code]).toEqual([503, 'interrupted'])
    expect(events).toContain('max-run-exceeded')
    await waitUntil('the handler has begun', () => over !== undefined)
    go.open()
    await over?.catch(() => {})
    expect(await connection.post(null)).toEqual({ status: 200, text: '{"attempt":"unprotected"}' })
    expect(connection.opened()).toBe(1)

    // Its lease is left to run out. Without that maxRun, so that it does not matter how slow this machine is.
    await advance(600_000)
    const patient = await startApp({ service: { ...service, advance, events, once }, options: {}, handle })
    onTestFinished(async () => void (await patient.close()))
    const [rerun, replay] = await clientOf(patient.url, service.tenant).twice()
    expect([jsonOf(rerun), jsonOf(replay), isReplay(replay)]).toEqual([{ attempt: 2 }, { attempt: 2 }, true])
  })

  test('a handler whose key was taken over meanwhile: 503, and its late answer is not stored', async () => {
    const go = new Gate()
    let runs = 0
    const { send, advance } = await start(async () => {
      runs += 1
      const mine = runs
      if (mine === 1) await go.opened
      return { runs: mine }
    })
    const first = send()
    await waitUntil('the first one runs', () => runs === 1)
    await advance(600_000)
    expect(jsonOf(await send())).toEqual({ runs: 2 })
    go.open()
    const lost = await first
    expect([lost.status, jsonOf(lost).code]).toEqual([503, 'interrupted'])
    const again = await send()
    expect([jsonOf(again), isReplay(again)]).toEqual([{ runs: 2 }, true])
  })

  test('thirty requests on one connection, and thirty at once: no warning, no rejection that nobody handles', async () => {
    const complaints: unknown[] = []
    const complain = (complaint: unknown) => void complaints.push(complaint)
    process.on('warning', complain).on('unhandledRejection', complain)
    onTestFinished(() => void process.off('warning', complain).off('unhandledRejection', complain))
    let runs = 0
    const { url, tenant } = await start(async () => ({ runs: ++runs }))

    const connection = oneConnection(url, tenant)
    onTestFinished(connection.close)
    for (let number = 0; number < 15; number += 1) {
      const first = await connection.post(`key-${number}`)
      expect(await connection.post(`key-${number}`)).toEqual(first)
    }
    expect([runs, connection.opened()]).toEqual([15, 1])

    const pipelined = await rawConnection(url)
    const one = (number: number) => rawRequest({ path: '/work', tenant, key: `"piped-${number}"`, body: '{}' })
    pipelined.write(Array.from({ length: 30 }, (_, number) => one(number)).join(''))
    await waitUntil('all of them are answered', () => pipelined.received().split('HTTP/1.1 200').length === 31)
    pipelined.destroy()
    // Warnings are told in the next turn.
    await new Promise((resolve) => setImmediate(resolve))
    expect(complaints).toEqual([])
  })
}
