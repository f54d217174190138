import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { armCrashPoints, SimulatedCrash } from '../../src/testing/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay, problemOf } from './seen.js'
import { everywhere, gated, leaseMs, setup } from './setup.js'

// The rows that need a crash or an order of events, in both profiles. With real processes: crashes.test.ts, last-byte.test.ts.

const database = useDatabase()

const key = 'k'
const body = '{"amount":100}'
const profiles = ['ietf', 'stripe'] as const

beforeAll(async () => {
  await database.pool.query('create table effects (tenant text not null, what text not null)')
})

/** The first time that a point is reached, the process "dies" there. */
function dieAt(wanted: string): void {
  const disarm = armCrashPoints((point) => {
    if (point !== wanted) return
    disarm()
    throw new SimulatedCrash(point)
  })
  onTestFinished(disarm)
}

describe.each(profiles)('an operation in the %s profile', (profile) => {
  /** An order with two commits, and what they have left in the table. */
  async function orders() {
    const bundle = await setup(database, profile)
    const leave = (what: string) => `insert into effects (tenant, what) values ('${bundle.caller}', '${what}')`
    const target = bundle.operation({}, async (n, run) => {
      await run?.phase('ordered', (tx) => tx.query(leave('ordered')).then(() => null))
      const finished = await run?.finish(async (tx) => {
        await tx.query(leave('finished'))
        return reply(201, { by: n })
      })
      return finished ?? reply(500)
    })
    const effects = async () =>
      (await database.pool.query('select what from effects where tenant = $1 order by what', [bundle.caller])).rows.map(({ what }) => what)
    return { ...bundle, ...target, effects }
  }

  test.each([
    ['in its first phase, before the commit', 'phase ordered:written', []],
    ['after its first phase', 'phase ordered:committed', ['ordered']],
    ['in its finish, before the commit', 'finish:written', ['ordered']],
  ])('D1 dies %s: 409 while the lease holds, then a retry completes it with one effect', async (_, point, left) => {
    const { send, advance, effects } = await orders()
    dieAt(point)
    await expect(send({ key, body })).rejects.toBeInstanceOf(SimulatedCrash)
    expect(await effects()).toEqual(left)
    expect((await send({ key, body })).status).toBe(409)
    await advance(leaseMs)
    const retry = await send({ key, body })
    expect([retry.status, isReplay(retry)]).toEqual([201, false])
    expect(await effects()).toEqual(['finished', 'ordered'])
    expect((await send({ key, body })).bytes).toEqual(retry.bytes)
  })

  test('D2 dies after the commit, before the answer went out: a replay, with no wait for a lease', async () => {
    const { send, effects } = await orders()
    dieAt('finish:committed')
    await expect(send({ key, body })).rejects.toBeInstanceOf(SimulatedCrash)
    const retry = await send({ key, body })
    expect([retry.status, retry.json, isReplay(retry)]).toEqual([201, { by: 1 }, true])
    expect(await effects()).toEqual(['finished', 'ordered'])
  })

  test('D4 sleeps past its lease in a phase and wakes: its writes are rolled back, and its client is told to ask again', async () => {
    const { operation, advance, caller } = await setup(database, profile)
    const gate = gated()
    const { send, runs } = operation({}, async (n, run) => {
      await run?.phase('ordered', async (tx) => {
        await tx.query('insert into effects (tenant, what) values ($1, $2)', [caller, `by ${n}`])
        if (n === 1) await gate.work(n, undefined)
        return null
      })
      return reply(201, { by: n })
    })
    const first = send({ key, body })
    await gate.arrived
    await advance(leaseMs)
    expect((await send({ key, body })).json).toEqual({ by: 2 })
    gate.open()
    expect(problemOf(await first)).toEqual({ status: 503, code: 'interrupted' })
    expect((await send({ key, body })).json).toEqual({ by: 2 })
    const { rows } = await database.pool.query('select what from effects where tenant = $1', [caller])
    expect([rows, runs()]).toEqual([[{ what: 'by 2' }], 2])
  })
})

describe.each(profiles)('an opaque handler in the %s profile', (profile) => {
  test.each([
    ['rerun', { status: 201, marked: false, runs: 2 }],
    ['store', { status: 500, marked: true, runs: 1 }],
    ['park', { status: 500, marked: false, runs: 1 }],
  ] as const)("D6 dies before its answer is stored, under '%s': 409 while the lease holds, then as it says", async (afterFailure, next) => {
    const { handler, advance } = await setup(database, profile)
    const { send, runs } = handler({ afterFailure })
    dieAt('finish:before')
    await expect(send({ key, body })).rejects.toBeInstanceOf(SimulatedCrash)
    expect((await send({ key, body })).status).toBe(409)
    await advance(leaseMs)
    const retry = await send({ key, body })
    expect({ status: retry.status, marked: isReplay(retry), runs: runs() }).toEqual(next)
    if (next.status === 500) expect(problemOf(retry).code).toBe('outcome_unknown')
  })

  test('D2 dies after its answer was stored, before it went out: a replay, n=1', async () => {
    const { handler } = await setup(database, profile)
    const { send, runs } = handler()
    dieAt('finish:after')
    await expect(send({ key, body })).rejects.toBeInstanceOf(SimulatedCrash)
    const retry = await send({ key, body })
    expect([retry.status, retry.json, isReplay(retry), runs()]).toEqual([201, { order: 1 }, true, 1])
  })
})

describe.each(everywhere)('an answer of %s() in the %s profile', (surface, profile) => {
  test('R6 is given to the adapter only after it is stored', async () => {
    const order: string[] = []
    const store = postgresStore(fromPg(database.pool))
    const finish: typeof store.keyFinish = async (given) => {
      const result = await store.keyFinish(given)
      order.push('stored')
      return result
    }
    const { on } = await setup(database, profile, { store: { ...store, keyFinish: finish } })
    const { send } = on(surface)
    await send({ key, body }).then(() => order.push('answered'))
    expect(order).toEqual(['stored', 'answered'])
  })
})
