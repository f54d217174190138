import type pg from 'pg'
import { expect, test } from 'vitest'
import { type OperationRun, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

type Run = OperationRun<pg.PoolClient>
type Work = (tx: pg.PoolClient) => Promise<unknown>

const places: Record<string, (run: Run, work: Work) => Promise<unknown>> = {
  phase: (run, work) => run.phase('ordered', (tx) => work(tx).then(() => {})),
  finish: (run, work) => run.finish((tx) => work(tx).then(() => reply(201))),
}

/** An operation whose last step does this work, and what is in the database afterwards. */
async function working(place: string, work: (run: Run, tx: pg.PoolClient, id: string) => Promise<unknown>) {
  const bundle = await setup(database)
  const id = crypto.randomUUID()
  const operation = bundle.once.operation(`forgets-${id}`, {}, async (run) => {
    await places[place]?.(run, (tx) => work(run, tx, id))
    return reply(201)
  })
  return {
    ...bundle,
    attempt: () => operation.run({ tenant: bundle.tenant, key: 'k', input: null }),
    rows: async () => (await bundle.things()).filter((each) => each.startsWith(id)),
    async jobs() {
      const { rows } = await database.pool.query<{ name: string }>('select name from oncekey.jobs where tenant = $1 order by name', [
        bundle.tenant,
      ])
      return rows.map(({ name }) => name)
    },
  }
}

const insert = (tx: pg.PoolClient, id: string) => tx.query('insert into things (id) values ($1)', [id])

/** Rejections that reach the process, in the place of the test runner, which would fail for them. */
async function unhandledDuring(act: () => Promise<unknown>): Promise<unknown[]> {
  const others = process.listeners('unhandledRejection')
  const unhandled: unknown[] = []
  process.removeAllListeners('unhandledRejection')
  process.on('unhandledRejection', (error) => unhandled.push(error))
  await act()
  await new Promise((resolve) => setImmediate(resolve))
  process.removeAllListeners('unhandledRejection')
  for (const listener of others) process.on('unhandledRejection', listener)
  return unhandled
}

test.each(Object.keys(places))('in a %s, a loop that is not awaited commits nothing, and the error names the job', async (place) => {
  const ends: Promise<unknown>[] = []
  const { attempt, rows, jobs, key, steps } = await working(place, async (run, tx, id) => {
    for (const n of [1, 2, 3]) {
      const end = (async () => {
        await insert(tx, `${id} ${n}`)
        await run.stage(tx, `mail ${n}`, { n })
      })()
      ends.push(end)
      end.catch(() => {})
    }
  })
  await expect(attempt()).rejects.toMatchObject({ code: 'stage_outside_phase', message: expect.stringContaining("'mail 1'") })
  for (const end of ends) await expect(end).rejects.toMatchObject({ code: 'stage_outside_phase' })
  expect([await rows(), await jobs(), await steps()]).toEqual([[], [], []])
  expect((await key('k')).state).toBe('pending')
})

test.each(Object.keys(places))(
  'in a %s, a job that is staged late rejects without ending the process, because the step says so',
  async (place) => {
    const { attempt, rows, jobs } = await working(place, async (run, tx, id) => {
      // What stages has no promise of its own.
      insert(tx, id).then(() => void run.stage(tx, 'late', {}))
    })
    const unhandled = await unhandledDuring(() => expect(attempt()).rejects.toMatchObject({ code: 'stage_outside_phase' }))
    expect([unhandled, await rows(), await jobs()]).toEqual([[], [], []])
  },
)

test.each(Object.keys(places))('in a %s, a job that is staged before the work returns is committed, awaited or not', async (place) => {
  const { attempt, jobs } = await working(place, async (run, tx) => {
    void run.stage(tx, 'first', {})
    await tx.query('select 1')
    void run.stage(tx, 'second', {})
  })
  expect((await attempt()).kind).toBe('executed')
  expect(await jobs()).toEqual(['first', 'second'])
})

test.each(Object.keys(places))('in a %s, a job that is staged after the commit rejects', async (place) => {
  let late: (() => Promise<void>) | undefined
  const { attempt, jobs } = await working(place, async (run, tx) => {
    late = () => run.stage(tx, 'late', {})
  })
  expect((await attempt()).kind).toBe('executed')
  const error = await late?.().catch((thrown) => thrown)
  expect(['stage_outside_phase', 'steps_overlap']).toContain(error.code)
  expect(await jobs()).toEqual([])
})

test('a body that catches the error of a late job has nothing of that phase', async () => {
  const bundle = await setup(database)
  const id = crypto.randomUUID()
  const operation = bundle.once.operation('catches', {}, async (run) => {
    await run.phase('ordered', async (tx) => void insert(tx, id).then(() => void run.stage(tx, 'late', {}))).catch(() => {})
    return run.finish(() => reply(409))
  })
  expect(await operation.run({ tenant: bundle.tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: { status: 409 } })
  expect(await bundle.things()).not.toContain(id)
})

test('a call that is not awaited fails the body that returns before it, and its result is not lost', async () => {
  const { once, tenant, steps } = await setup(database)
  let answer = () => {}
  const operation = once.operation('forgets a call', {}, async (run) => {
    void run.call('charge', () => new Promise<string>((resolve) => (answer = () => resolve('ch_1'))))
    await new Promise((resolve) => setImmediate(resolve))
    setImmediate(() => answer())
    return reply(201)
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({
    code: 'steps_overlap',
    message: expect.stringContaining("'charge' was under way"),
  })
  expect(await steps()).toEqual([{ name: 'charge', kind: 'call', result: '"ch_1"' }])
})
