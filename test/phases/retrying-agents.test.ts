import { expect, onTestFinished, test } from 'vitest'
import { reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { otherSide } from './other-side.js'
import { setup } from './setup.js'

const database = useDatabase()

const globalDispatcher = Symbol.for('undici.globalDispatcher.1')
const globals = globalThis as unknown as Record<symbol, Dispatcher>

interface Dispatcher {
  dispatch(options: object, handler: object): boolean
}

/** What undici's RetryAgent does: a request that failed is sent again, and the last error is the one that is told. */
function sendsAgain(agent: Dispatcher): Dispatcher['dispatch'] {
  return function dispatch(options, handler) {
    let left = 1
    const again = new Proxy(handler, {
      get(target, name) {
        const own = Reflect.get(target, name)
        if (typeof own !== 'function') return own
        const isError = name === 'onError' || name === 'onResponseError'
        return (...told: unknown[]) => (isError && left-- > 0 ? agent.dispatch(options, again) : own.apply(target, told))
      },
    })
    return agent.dispatch(options, again)
  }
}

/** An agent of the service's, and where it is put. */
const retryingAgents: Record<string, (agent: Dispatcher) => RequestInit> = {
  'of the request': (agent) => ({ dispatcher: { dispatch: sendsAgain(agent) } }) as never,
  'of the process': (agent) => {
    globals[globalDispatcher] = { dispatch: sendsAgain(agent) }
    return {}
  },
  'of the process, composed': (agent) => {
    const dispatch = sendsAgain(agent)
    globals[globalDispatcher] = new Proxy(agent, { get: (target, name) => (name === 'dispatch' ? dispatch : Reflect.get(target, name)) })
    return {}
  },
  'in place of fetch': () => {
    const { fetch } = globalThis
    onTestFinished(() => {
      globalThis.fetch = fetch
    })
    globalThis.fetch = (...request) => fetch(...request).catch(() => fetch(...request))
    return {}
  },
}

test.each(Object.entries(retryingAgents))(
  'without keys on the other side: "refused" by an agent %s that tries again is parked',
  async (_, put) => {
    const { once, tenant, key } = await setup(database)
    const other = await otherSide()
    const operation = once.operation('charges', {}, async (run) => {
      const charge = { method: 'POST', body: '{"cents":100}', ...init }
      return reply(200, await run.fetch('charge', other.url, charge, { whenUnknown: 'park' }))
    })
    await fetch(other.url)
    const agent = globals[globalDispatcher] as Dispatcher
    onTestFinished(() => {
      globals[globalDispatcher] = agent
    })
    const init = put(agent)
    other.answer = (response) => {
      // It has arrived, and whoever comes again is turned away at the door.
      void other.close()
      response.destroy()
    }
    expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('parked')
    expect([other.arrived.map(({ method }) => method), (await key('k')).reason]).toEqual([
      ['GET', 'POST'],
      expect.stringContaining('fetch failed'),
    ])
  },
)
