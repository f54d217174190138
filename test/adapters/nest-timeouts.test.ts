// The TimeoutInterceptor of Nest's documentation: it answers 408 and unsubscribes, and the handler goes on unheard. Nest sends every answer
// of a route in one place, outside of all interceptors: the layer takes the 408 for the route's answer, wherever the interceptor stands.
import { type CallHandler, type NestInterceptor, RequestTimeoutException } from '@nestjs/common'
import { filter, interval, map, type Observable, race, take } from 'rxjs'
import { describe, expect, test } from 'vitest'
import { idempotency } from '../../src/adapters/nest.js'
import { Gate } from '../../src/testing/adapter-cases/adapter-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { platforms, start, tenant, workController } from './nest-app.js'
import { isReplay } from './service.js'

const database = useDatabase()

/** Like `timeout()` of RxJS, from a timer and unsubscribing from the handler, but when the first handler runs, and not after a time. */
function setup() {
  const go = new Gate()
  const seen = { runs: 0, done: 0, timedOut: 0 }
  const isDue = () => seen.runs > seen.timedOut
  const interceptor: NestInterceptor = {
    intercept(_context: unknown, next: CallHandler): Observable<unknown> {
      const expired = interval(5).pipe(
        filter(isDue),
        take(1),
        map(() => {
          seen.timedOut += 1
          throw new RequestTimeoutException()
        }),
      )
      return race(next.handle(), expired)
    },
  }
  const work = async () => {
    seen.runs += 1
    await go.opened
    seen.done += 1
    return `run ${seen.done}`
  }
  return { go, seen, interceptor, work }
}

describe.each(platforms)('Nest on %s', (platform) => {
  test.each(['in front of', 'behind'])(
    'the 408 of a TimeoutInterceptor %s the layer is stored: the handler goes on, and runs no second time',
    async (where) => {
      const { go, seen, interceptor, work } = setup()
      const { send, stateOf } = await start(database, platform, ({ once }) => {
        const layer = idempotency(once, { tenant, afterFailure: 'rerun' })
        return {
          controllers: [workController(work)],
          main: (app) => app.useGlobalInterceptors(...(where === 'behind' ? [layer, interceptor] : [interceptor, layer])),
        }
      })
      expect([(await send()).status, await stateOf(), seen.done]).toEqual([408, 'complete', 0])
      const beside = await send()
      expect([beside.status, isReplay(beside)]).toEqual([408, true])
      go.open()
      await waitUntil('the handler is done', () => seen.done === 1)
      const late = await send()
      expect([late.status, isReplay(late), seen.runs]).toEqual([408, true, 1])
    },
  )
})
