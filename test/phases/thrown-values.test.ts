import type pg from 'pg'
import { expect, test, vi } from 'vitest'
import { createOnce, type OperationRun, reply } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { monsters } from '../support/monsters.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

type Run = OperationRun<pg.PoolClient>

/** Where in a body the value comes from. */
const places: Record<string, (run: Run, fail: () => never) => Promise<unknown>> = {
  'the body': async (_, fail) => fail(),
  'a phase': (run, fail) => run.phase('phase', fail),
  'a call': (run, fail) => run.call('call', fail),
  'a call that is parked': (run, fail) => run.call('call', fail, { whenUnknown: 'park' }),
  'a call that is refused': (run, fail) => run.call('call', fail, { classify: () => 'refused' }),
  'a finish': (run, fail) => run.finish(fail),
}

test.each(Object.entries(monsters))('the key is given back, ended or parked as ever when the work throws %s', async (_, monster) => {
  vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const { tenant, key } = await setup(database)
  // A listener that throws it as well.
  const onEvent = () => {
    throw monster()
  }
  const once = createOnce({ store: postgresStore(connectionTo(database.pool)), onEvent })
  const states = { rerun: 'pending', store: 'failed', park: 'parked' } as const
  for (const afterFailure of ['rerun', 'store', 'park'] as const) {
    for (const [place, fails] of Object.entries(places)) {
      const name = `${afterFailure} ${place}`
      const thrown = monster()
      const fail = () => {
        throw thrown
      }
      const request = { tenant, scope: 'thrown', key: name, fingerprint: { value: 1 }, afterFailure }
      const end = await once
        .execute(request, async (run) => {
          await fails(run, fail)
          return reply(200)
        })
        .then(
          ({ kind }) => kind,
          (error) => (error === thrown ? 'thrown' : error.code),
        )
      const expected = place.endsWith('parked') ? 'parked' : place.endsWith('refused') ? 'call_refused' : 'thrown'
      expect([name, end]).toEqual([name, expected])
      expect([name, (await key(name)).state]).toEqual([name, expected === 'parked' ? 'parked' : states[afterFailure]])
    }
  }
})

test.each(Object.entries(monsters))('local work and a message leave nothing behind when they throw %s', async (_, monster) => {
  const { once, tenant, key, insert, things } = await setup(database)
  const thrown = monster()
  const id = crypto.randomUUID()
  const work = async (tx: pg.PoolClient) => {
    await insert(tx, id)
    throw thrown
  }
  const ends = [
    once.local('thrown-local', {}, work).run({ tenant, key: 'local', input: null }),
    once.consumer('thrown-consumer', { tenant }, work).handle({ id: 'message', body: null }),
  ]
  for (const end of await Promise.allSettled(ends)) expect(end.status === 'rejected' && Object.is(end.reason, thrown)).toBe(true)
  expect([await key('local'), await key('message'), (await things()).includes(id)]).toEqual([undefined, undefined, false])
})

test.each(Object.entries(monsters))('no run is changed by listeners that throw %s', async (_, monster) => {
  const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
  const { tenant, insert, things } = await setup(database)
  const listeners = {
    onEvent: async () => {
      throw monster()
    },
    logger: { info: throwIt, warn: throwIt, error: throwIt, debug: throwIt },
  }
  function throwIt() {
    throw monster()
  }
  const once = createOnce({ store: postgresStore(connectionTo(database.pool)), ...listeners })
  const id = crypto.randomUUID()
  const operation = once.operation('listened', {}, async (run) =>
    run.finish(async (tx) => {
      await insert(tx, id)
      return reply(201)
    }),
  )
  expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect(await things()).toContain(id)
  const texts = warn.mock.calls.map(([text]) => text)
  expect(texts).toContainEqual(expect.stringMatching(/^onEvent threw: /))
  expect(texts).toContainEqual(expect.stringMatching(/^logger threw: /))
})
