import type pg from 'pg'
import { expect, test } from 'vitest'
import { bodyOf, isOncekeyError, type OperationRun, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

test('goes on after the last committed step, with the same results', async () => {
  const { once, tenant, insert, things } = await setup(database)
  const seen: unknown[] = []
  let failures = 2
  const operation = once.operation('resumes', {}, async (run) => {
    const first = await run.phase('first', async (tx) => {
      await insert(tx, 'resumes-1')
      return { at: new Date(0), gone: undefined, nested: [1, null] }
    })
    seen.push(first)
    if (failures-- > 0) throw new Error('again')
    await run.phase('nothing', (tx) => insert(tx, 'resumes-2').then(() => {}))
    return reply(200, first)
  })
  const attempt = () => operation.run({ tenant, key: 'k', input: null })
  await expect(attempt()).rejects.toThrow('again')
  await expect(attempt()).rejects.toThrow('again')
  const outcome = await attempt()
  expect(outcome).toMatchObject({ kind: 'executed', stored: true })
  // The first run saw what a resumed one sees: a Date is a text in both.
  const expected = { at: '1970-01-01T00:00:00.000Z', nested: [1, null] }
  expect(seen).toEqual([expected, expected, expected])
  expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual(expected)
  expect(await things()).toEqual(expect.arrayContaining(['resumes-1', 'resumes-2']))
})

test('rolls back everything of a phase that throws, and lets the body decide', async () => {
  const { once, tenant, insert, things, steps } = await setup(database)
  const operation = once.operation('declines', {}, async (run) => {
    try {
      await run.phase('tries', async (tx) => {
        await insert(tx, 'declines')
        await run.stage(tx, 'never', {})
        throw new Error('out of stock')
      })
    } catch {
      return reply(409, { error: 'out_of_stock' })
    }
    return reply(201)
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: { status: 409 } })
  expect(await things()).not.toContain('declines')
  expect(await steps()).toEqual([])
  const { rows } = await database.pool.query(`select 1 from oncekey.jobs where tenant = $1`, [tenant])
  expect(rows).toEqual([])
})

test('refuses a result that is not JSON at once, and commits nothing', async () => {
  const { once, tenant, insert, things } = await setup(database)
  const results = {
    bigint: 1n,
    date: new Date(Number.NaN),
    nan: Number.NaN,
    map: new Map(),
    deep: { in: [() => {}, Number.POSITIVE_INFINITY] },
  }
  for (const [name, result] of Object.entries(results)) {
    const operation = once.operation(`not-json-${name}`, {}, async (run) => {
      await run.phase('bad', async (tx) => {
        await insert(tx, `not-json-${name}`)
        return result
      })
      return reply(200)
    })
    await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({ code: 'result_not_json' })
    expect(await things()).not.toContain(`not-json-${name}`)
  }
})

test('refuses overlapping steps at once, and a call inside a phase', async () => {
  const { once, tenant, insert, things } = await setup(database)
  const codes: unknown[] = []
  const note = (error: unknown) => void codes.push(isOncekeyError(error) ? error.code : error)
  const parallel = once.operation('parallel', {}, async (run) => {
    await Promise.all([
      run.phase('one', (tx) => insert(tx, 'parallel-1').then(() => 1)).catch(note),
      run.phase('two', (tx) => insert(tx, 'parallel-2').then(() => 2)).catch(note),
    ])
    return reply(200)
  })
  await parallel.run({ tenant, key: 'k', input: null })
  const nested = once.operation('nested', {}, async (run) => {
    await run.phase('outer', async () => {
      await run.call('inner', () => codes.push('called')).catch(note)
    })
    return reply(200)
  })
  await nested.run({ tenant, key: 'k', input: null })
  expect(codes).toEqual(['steps_overlap', 'steps_overlap'])
  expect(await things()).not.toContain('parallel-2')

  const forgotten = once.operation('forgotten', {}, async (run) => {
    void run.phase('not awaited', (tx) => insert(tx, 'forgotten').then(() => {}))
    return reply(200)
  })
  await expect(forgotten.run({ tenant, key: 'k', input: null })).rejects.toMatchObject({ code: 'steps_overlap' })
})

test('parks a half-way key when a deploy renamed, removed or changed a step, and runs nothing again', async () => {
  type Body = (run: OperationRun<pg.PoolClient>) => Promise<void>
  const deploys: Record<string, Body> = {
    renamed: async (run) => void (await run.phase('made', () => ran.push('made'))),
    removed: async () => {},
    'now a call': async (run) => void (await run.call('created', () => ran.push('call'))),
  }
  const ran: string[] = []
  for (const [name, body] of Object.entries(deploys)) {
    const { once, newOnce, tenant, key } = await setup(database)
    const before = once.operation('deployed', {}, async (run) => {
      await run.phase('created', () => 1)
      throw new Error('half-way')
    })
    await expect(before.run({ tenant, key: 'k', input: null })).rejects.toThrow('half-way')
    const after = newOnce().operation('deployed', {}, async (run) => {
      await body(run)
      return reply(200)
    })
    expect([name, (await after.run({ tenant, key: 'k', input: null })).kind]).toEqual([name, 'parked'])
    expect(await key('k')).toMatchObject({ state: 'parked', reason: expect.stringContaining('created') })
  }
  expect(ran).toEqual([])
})

test('retries serialization failures and deadlocks by running the phase again whole', async () => {
  const { once, tenant, things, insert } = await setup(database)
  for (const state of ['40001', '40P01']) {
    let tries = 0
    const operation = once.operation(`serializes-${state}`, {}, async (run) => {
      await run.phase('conflicts', async (tx) => {
        tries += 1
        await insert(tx, `serializes-${state}-${tries}`)
        await run.stage(tx, 'job', { tries })
        if (tries < 3) await tx.query(`do $$ begin raise exception 'conflict' using errcode = '${state}'; end $$`)
      })
      return reply(200)
    })
    expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
    expect(tries).toBe(3)
    expect((await things()).filter((id) => id.startsWith(`serializes-${state}`))).toEqual([`serializes-${state}-3`])
  }
  const { rows } = await database.pool.query('select payload from oncekey.jobs where tenant = $1', [tenant])
  expect(rows).toEqual([{ payload: '{"tries":3}' }, { payload: '{"tries":3}' }])
})

test('stages jobs only in the transaction of the phase that is open', async () => {
  const { once, tenant } = await setup(database)
  const operation = once.operation('stages', {}, async (run) => {
    const other = await database.pool.connect()
    try {
      await expect(run.stage(other, 'too early', {})).rejects.toMatchObject({ code: 'stage_outside_phase' })
      await run.phase('open', async (tx) => {
        await expect(run.stage(other, 'elsewhere', {})).rejects.toMatchObject({ code: 'stage_outside_phase' })
        await run.stage(tx, 'here', { n: 1 })
      })
    } finally {
      other.release()
    }
    return reply(200)
  })
  await operation.run({ tenant, key: 'k', input: null })
  const { rows } = await database.pool.query('select name, payload from oncekey.jobs where tenant = $1', [tenant])
  expect(rows).toEqual([{ name: 'here', payload: '{"n":1}' }])
})

test('gives the same derived keys to every attempt, and others to another life of the key', async () => {
  const { once, tenant } = await setup(database, { retention: '1h' })
  const keys: string[][] = []
  let fail = true
  const operation = once.operation('derives', {}, async (run) => {
    const called: string[] = []
    await run.call('charge', ({ key }) => void called.push(key)).catch(() => {})
    keys.push([...called, run.key('charge'), run.key('mail')])
    if (fail) {
      fail = false
      throw new Error('again')
    }
    return reply(200)
  })
  const attempt = () => operation.run({ tenant, key: 'the-client-key', input: null })
  await expect(attempt()).rejects.toThrow()
  await attempt()
  await database.pool.query(`update oncekey.keys set expires_at = now() where tenant = $1`, [tenant])
  await attempt()
  const [first, resumed, reborn] = keys as [string[], string[], string[]]
  expect(first[0]).toBe(first[1])
  expect(resumed).toEqual(first.slice(1))
  expect(reborn[1]).not.toBe(first[1])
  expect(new Set([first[1], first[2]]).size).toBe(2)
  expect(JSON.stringify(keys)).not.toContain('the-client-key')
})

test('leaves no steps behind when a key begins a new life or is reaped', async () => {
  const { once, tenant, steps } = await setup(database)
  const operation = once.operation('forgets', {}, async (run) => {
    await run.phase(run.attempt === 1 && run.idempotencyKey === 'k' ? `only ${run.incarnation}` : 'other', () => 1)
    return reply(200)
  })
  const expire = () =>
    database.pool.query(
      `update oncekey.keys set expires_at = now() - interval '1 s', reap_after = now() - interval '1 s' where tenant = $1`,
      [tenant],
    )
  await operation.run({ tenant, key: 'k', input: null })
  const [first] = await steps()
  await expire()
  await operation.run({ tenant, key: 'k', input: null })
  expect(await steps()).toHaveLength(1)
  expect((await steps())[0]?.name).not.toBe(first?.name)
  await expire()
  await postgresStore(fromPg(database.pool)).keyReap({ limit: 100_000 })
  expect(await steps()).toEqual([])
})

test('stores an error that the body throws when asked to, as Stripe does', async () => {
  const { once, tenant } = await setup(database)
  const operation = once.operation('stores-errors', { storeErrors: true }, async () => {
    throw new Error('broken')
  })
  await expect(operation.run({ tenant, key: 'k', input: null })).rejects.toThrow('broken')
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({
    kind: 'replayed',
    state: 'failed',
    answer: { status: 500 },
  })
})

test('refuses a second operation of the same name, and operations on a store without transactions', async () => {
  const { once } = await setup(database)
  once.operation('unique', {}, () => reply(200))
  expect(() => once.operation('unique', {}, () => reply(200))).toThrow(expect.objectContaining({ code: 'operation_name_taken' }))
  expect(() => once.local('unique', {}, () => reply(200))).toThrow(expect.objectContaining({ code: 'operation_name_taken' }))
})

test.each([
  ['behind a Proxy', <T extends object>(run: T) => new Proxy(run, {})],
  ['as a copy', <T extends object>(run: T) => ({ ...run })],
])('a run that somebody wraps is a run: %s', async (_, wrapped) => {
  const { once, tenant, insert, things } = await setup(database)
  const id = `wrapped-${crypto.randomUUID()}`
  const operation = once.operation('wrapped', {}, async (given) => {
    const run = wrapped(given)
    expect([run.idempotencyKey, run.key('a'), run.signal.aborted]).toEqual([id, given.key('a'), false])
    return run.finish(async (tx) => {
      await insert(tx, id)
      return reply(201)
    })
  })
  expect((await operation.run({ tenant, key: id, input: null })).kind).toBe('executed')
  expect(await things()).toContain(id)
})
