import type pg from 'pg'
import { expect, test } from 'vitest'
import { type Answer, createOnce, type OnceOptions, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { startProxy } from '../support/postgres/proxy.js'
import { setup } from './setup.js'

const database = useDatabase()

const whole = reply(201, { token: 'a secret' }, { 'set-cookie': 'session=a', location: '/1' })
/** As the driver gives it back. */
const kept = { ...reply(201, undefined, { location: '/1', 'content-type': 'application/json' }), body: Buffer.from('{"token":"…"}') }
const redact = ({ status, headers }: Answer) => ({ ...reply(status, { token: '…' }), headers })

/** Operations, local work and the inbox: all that stores an answer besides `once.execute`. */
async function ways(options: Partial<OnceOptions<pg.PoolClient>>, work = () => whole) {
  const { once, tenant, events, pool } = await setup(database, options)
  const returned = once.operation('returned', {}, work)
  const finished = once.operation('finished', {}, (run) => run.finish(work))
  const local = once.local('local', {}, work)
  const request = { tenant, key: 'k', input: null }
  const run = {
    returned: () => returned.run(request),
    finished: () => finished.run(request),
    local: () => local.run(request),
    async within() {
      const tx = await pool.connect()
      try {
        await tx.query('begin')
        const outcome = await once.within(tx, { tenant, scope: 'within', key: 'k' }, work)
        await tx.query('commit')
        return outcome
      } finally {
        tx.release()
      }
    },
  }
  return { runs: Object.entries(run), events }
}

test('keeps what redact leaves of an answer, and gives the first caller all of it', async () => {
  const { runs } = await ways({ redact })
  for (const [name, run] of runs) {
    const first = await run()
    expect([name, first.kind === 'executed' && first.answer === whole]).toEqual([name, true])
    expect([name, await run()]).toMatchObject([name, { kind: 'replayed', answer: kept }])
  }
})

test('keeps the status alone and tells it when redact fails', async () => {
  const { runs, events } = await ways({
    redact() {
      throw new Error('a mistake')
    },
  })
  for (const [name, run] of runs) {
    expect([name, await run()]).toMatchObject([name, { kind: 'executed', answer: whole }])
    const replay = await run()
    expect([name, replay]).toMatchObject([
      name,
      { kind: 'replayed', answer: { status: 201, headers: [], omittedBytes: whole.body.length } },
    ])
  }
  expect(events.filter((type) => type === 'redaction-failed')).toHaveLength(4)
})

test('gives the first caller the whole answer when the acknowledgement of its COMMIT is lost', async () => {
  const { tenant } = await setup(database)
  const proxy = await startProxy(database.url)
  const pool = database.createPool({ connectionString: proxy.url })
  const once = createOnce({ store: postgresStore(fromPg(pool)), redact })
  const finished = once.operation('lost-finished', {}, (run) => run.finish(() => whole))
  const local = once.local('lost-local', {}, () => whole)
  for (const work of [finished, local]) {
    await work.run({ tenant, key: 'warm-up', input: null })
    const cut = proxy.swallowReplyTo(/commit\0/)
    const first = await work.run({ tenant, key: 'k', input: null })
    await cut
    expect([work.name, first.kind === 'executed' && first.answer === whole]).toEqual([work.name, true])
    expect([work.name, await work.run({ tenant, key: 'k', input: null })]).toMatchObject([work.name, { kind: 'replayed', answer: kept }])
  }
})

test('gives the answer of the try that was committed, not of one that was rolled back after it', async () => {
  const { pool, tenant } = await setup(database)
  const store = postgresStore(fromPg(pool))
  let cut = true
  let early = true
  const once = createOnce({
    redact,
    store: {
      ...store,
      keyRead: async (ref) => {
        const record = early ? undefined : await store.keyRead(ref)
        early = false
        return record
      },
      steps: {
        ...store.steps,
        // The first commit arrives, its acknowledgement does not, and the look at the record comes too early to see it.
        async transaction(work) {
          const result = await store.steps.transaction(work)
          if (cut) {
            cut = false
            throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
          }
          return result
        },
      },
    },
  })
  let tries = 0
  const operation = once.operation('tried-twice', {}, (run) => run.finish(() => reply(201, { try: ++tries })))
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: reply(201, { try: 1 }) })
  expect([tries, cut, early]).toEqual([2, false, false])
})
