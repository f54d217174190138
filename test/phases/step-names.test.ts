import type pg from 'pg'
import { expect, test } from 'vitest'
import { createOnce, type OperationRun, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

test.each(['phase', 'call'] as const)('refuses a name that a run uses twice, before the second %s does anything', async (second) => {
  const { once, tenant, insert, things, key, steps } = await setup(database)
  const id = `twice-${second}`
  const done: unknown[] = []
  const body = async (run: OperationRun<pg.PoolClient>) => {
    await run.phase('same', (tx) => insert(tx, id).then(() => {}))
    if (second === 'phase') await run.phase('same', () => void done.push('phase'))
    else await run.call('same', () => void done.push('call'), { whenUnknown: 'park' })
  }
  // A catch in the body turns it into no answer, and no later step is made.
  const operation = once.operation(id, {}, async (run) => {
    await body(run).catch(() => {})
    await run.call('later', () => void done.push('later')).catch(() => {})
    return reply(200)
  })
  const attempt = () => operation.run({ tenant, key: 'k', input: null })
  for (const _ of [1, 2]) {
    await expect(attempt()).rejects.toMatchObject({ code: 'step_name_repeated', message: expect.stringContaining("'same'") })
    expect(await key('k')).toMatchObject({
      state: 'pending',
      recovery_point: 'same',
      reason: expect.stringContaining("'same' is used twice"),
    })
  }
  expect([done, (await things()).includes(id), (await steps()).map(({ name }) => name)]).toEqual([[], true, ['same']])

  // Once the code is right, the run goes on after the first.
  const fixed = createOnce({ store: postgresStore(fromPg(database.pool)) }).operation(id, {}, async (run) => {
    await run.phase('same', () => void done.push('again'))
    return reply(200)
  })
  expect((await fixed.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect(done).toEqual([])
})

test.each([
  ['rerun', 'pending'],
  ['store', 'failed'],
  ['park', 'parked'],
] as const)("a name that is used twice ends a run under '%s' like any error: %s", async (afterFailure, state) => {
  const { once, tenant, key } = await setup(database)
  const request = { tenant, scope: 'twice', key: 'k', fingerprint: { value: 1 }, afterFailure }
  const attempt = once.execute(request, async (run) => {
    await run.phase('same', () => 1)
    await run.phase('same', () => 2)
    return reply(200)
  })
  await expect(attempt).rejects.toMatchObject({ code: 'step_name_repeated' })
  expect((await key('k')).state).toBe(state)
})
