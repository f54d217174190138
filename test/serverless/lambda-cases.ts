import { describe, expect, test } from 'vitest'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { openService, type Service } from '../adapters/service.js'
import type { TestDatabase } from '../support/postgres/database.js'
import { sources as allSources, eventOf, invoke, type LambdaHandler, type Sent, type Source } from './lambda-events.js'

/** What a function's one handler is given, and answers. */
export type Work = (body: Uint8Array) => Promise<{ readonly status: number; readonly text: string }>

export type StartFunction = (service: Service, work: Work) => LambdaHandler | Promise<LambdaHandler>

/** What `idempotency()` promises, to a function that AWS calls with events. `POST /work` does the work. */
export function exerciseLambda(database: TestDatabase, start: StartFunction, sources: readonly Source[] = allSources): void {
  describe.each(sources)('an event of %s', (source) => {
    async function setup(work: (run: number, body: Uint8Array) => Promise<string> | string = (run, body) => `run ${run}: ${body.length}`) {
      const service = await openService(database)
      let runs = 0
      const handler = await start(service, async (body) => {
        runs += 1
        return { status: 201, text: await work(runs, body) }
      })
      const send = (sent: Partial<Sent> = {}) => invoke(handler, eventOf(source, { tenant: service.tenant, ...sent }))
      return { ...service, send, runs: () => runs }
    }

    test('is carried out once, and replayed', async () => {
      const { send, runs, stateOf } = await setup()
      const [first, again] = [await send(), await send()]
      expect([first.status, first.body.toString(), first.header('idempotent-replayed')]).toEqual([201, 'run 1: 14', undefined])
      expect([again.status, again.body.toString(), again.header('idempotent-replayed')]).toEqual([201, 'run 1: 14', 'true'])
      expect([again.header('content-type'), again.header('x-run')]).toEqual([first.header('content-type'), first.header('x-run')])
      expect([runs(), await stateOf()]).toEqual([1, 'complete'])
    })

    test('with another body is refused, and without a key passes', async () => {
      const { send, runs } = await setup()
      await send()
      expect([(await send({ body: '{"item":"gin"}' })).status, (await send({ body: '{ "item": "tea" }' })).status]).toEqual([422, 201])
      expect([(await send({ key: null })).body.toString(), runs()]).toEqual(['run 2: 14', 2])
    })

    test('while the first is running is refused', async () => {
      const [reached, go] = [new Gate(), new Gate()]
      const { send, runs } = await setup(async () => {
        reached.open()
        await go.opened
        return 'done'
      })
      const first = send()
      await reached.opened
      const second = await send()
      expect([second.status, Number(second.header('retry-after')) > 0]).toEqual([409, true])
      go.open()
      expect([(await first).status, (await send()).body.toString(), runs()]).toEqual([201, 'done', 1])
    })

    test('with bytes is compared by them, also 1 MB', async () => {
      const { send, runs } = await setup()
      const body = Uint8Array.from({ length: 1_000_000 }, (_, index) => (index * 2_654_435_761) >>> 13)
      const other = body.slice()
      other[999_999] = (body[999_999] as number) ^ 1
      const binary = (body: Uint8Array) => send({ body, contentType: 'application/octet-stream' })
      expect((await binary(body)).body.toString()).toBe('run 1: 1000000')
      expect([(await binary(body)).status, (await binary(other)).status, runs()]).toEqual([201, 422, 1])
    })
  })
}
