import { describe, expect, test } from 'vitest'
import { type Answer, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { wayTo } from './outage.js'
import { fullDisk, hopeless, refusals } from './refusals.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, leaseMs, setup, type Work } from './setup.js'

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'

describe.each(everywhere)('the store of %s() in the %s profile fails after the work', (surface, profile) => {
  test('D7 keeps trying while the lease holds, and stores the answer when there is room again', async () => {
    const { on, caller, events } = await setup(database, profile)
    const { refuse, allow, count } = await refusals(database)
    await refuse(caller, fullDisk)
    const { send, runs } = on(surface)
    const before = await count()
    const first = send({ key, body })
    await waitUntil('the answer was refused twice', async () => (await count()) >= before + 2)
    await allow(caller)
    expect((await first).json).toEqual({ order: 1 })
    expect(isReplay(await send({ key, body }))).toBe(true)
    expect(runs()).toBe(1)
    expect(events).not.toContain('answer-not-stored')
  })
})

describe.each(['ietf', 'stripe'] as const)('an opaque handler in the %s profile whose answer cannot be stored', (profile) => {
  test.each([
    ['rerun', { status: 201, runs: 2 }],
    ['store', { status: 500, runs: 1, code: 'outcome_unknown' }],
    ['park', { status: 500, runs: 1, code: 'outcome_unknown' }],
  ] as const)(
    "D7 its true answer is delivered, an event says so, and afterFailure: '%s' decides about a retry",
    async (afterFailure, retried) => {
      const { handler, caller, events, advance } = await setup(database, profile)
      const { refuse, allow } = await refusals(database)
      await refuse(caller, hopeless)
      const { send, runs } = handler({ afterFailure })
      const first = await send({ key, body })
      expect({ status: first.status, json: first.json, location: first.header('location') }).toEqual({
        status: 201,
        json: { order: 1 },
        location: '/orders/1',
      })
      expect(events).toContain('answer-not-stored')
      expect(problemOf(await send({ key, body }))).toEqual({ status: 409, code: 'key_in_use' })

      await allow(caller)
      await advance(leaseMs)
      const retry = await send({ key, body })
      expect(retry.status).toBe(retried.status)
      if ('code' in retried) expect(problemOf(retry).code).toBe(retried.code)
      expect(runs()).toBe(retried.runs)
    },
  )
})

describe.each(['ietf', 'stripe'] as const)('an operation in the %s profile whose answer cannot be stored', (profile) => {
  /** A table of the service's own, and an operation with a phase. */
  async function withPhase(end: Work) {
    await database.ensure('create table if not exists notes (by text not null, what text not null)')
    const bundle = await setup(database, profile)
    const { caller } = bundle
    let phases = 0
    const target = bundle.operation({}, async (n, run) => {
      await run?.phase('noted', async (tx) => {
        phases += 1
        await tx.query('insert into notes values ($1, $2)', [caller, 'phase'])
      })
      return end(n, run)
    })
    const notes = async () =>
      (await database.pool.query('select what from notes where by = $1 order by what', [caller])).rows.map(({ what }) => what)
    return { ...bundle, ...target, ...(await refusals(database)), notes, phases: () => phases }
  }

  test('D7 503 with Retry-After, and a retry resumes', async () => {
    const { send, caller, refuse, allow, advance, notes, phases, runs } = await withPhase((n) => reply(201, { run: n }))
    await refuse(caller, hopeless)
    const first = await send({ key, body })
    expect(first.status).toBe(503)
    expect(Number(first.header('retry-after'))).toBeGreaterThanOrEqual(1)
    await allow(caller)
    await advance(leaseMs)
    expect((await send({ key, body })).json).toEqual({ run: 2 })
    expect(isReplay(await send({ key, body }))).toBe(true)
    expect({ notes: await notes(), phases: phases(), runs: runs() }).toEqual({ notes: ['phase'], phases: 1, runs: 2 })
  })

  test('D7 its 503 does not say that nothing was done: a phase was', async () => {
    const { send, caller, refuse, notes } = await withPhase((n) => reply(201, { run: n }))
    await refuse(caller, hopeless)
    const answer = await send({ key, body })
    expect(answer.status).toBe(503)
    expect(await notes()).toEqual(['phase'])
    expect(answer.text).not.toContain('Nothing was done')
  })

  test('D7 the database goes away before run.finish(): 503, and a retry resumes', async () => {
    const way = await wayTo(database.url)
    const pool = database.createPool({ connectionString: way.url })
    const { operation } = await setup(database, profile, { pool })
    let phases = 0
    const { send } = operation({}, async (n, run) => {
      await run?.phase('noted', () => {
        phases += 1
      })
      if (n === 1) way.cut()
      return (await run?.finish(() => reply(201, { run: n }))) as Answer
    })
    const first = send({ key, body })
    await waitUntil('the database was missed', () => way.refused() >= 2)
    way.mend()
    const answer = await first
    expect(answer.status).toBe(503)
    expect(Number(answer.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect((await send({ key, body })).json).toEqual({ run: 2 })
    expect(phases).toBe(1)
  })

  test.each([
    ['a full disk', fullDisk],
    ['an administrator who ends the session', '57P01'],
  ])('D7 run.finish() meets %s: 503, its writes are rolled back with it, and a retry resumes', async (_, errcode) => {
    const { send, caller, refuse, allow, advance, notes, phases } = await withPhase(async (n, run) => {
      if (!run) throw new Error('an operation has a run')
      return run.finish(async (tx) => {
        await tx.query('insert into notes values ($1, $2)', [run.tenant, 'finish'])
        return reply(201, { run: n })
      })
    })
    await refuse(caller, errcode)
    const first = await send({ key, body })
    expect(first.status).toBe(503)
    expect(Number(first.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(await notes()).toEqual(['phase'])
    await allow(caller)
    await advance(leaseMs)
    expect((await send({ key, body })).json).toEqual({ run: 2 })
    expect({ notes: await notes(), phases: phases() }).toEqual({ notes: ['finish', 'phase'], phases: 1 })
  })
})
