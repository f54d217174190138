import type pg from 'pg'
import { expect, test } from 'vitest'
import { type Once, type OperationRun, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

/** A way to be one of several withins: what a message does to a transaction. */
type Take = (tx: pg.PoolClient, id: string, work?: () => Promise<unknown>) => Promise<unknown>

/** What a message that is taken in writes is a row of its id. */
const ways: Record<string, (once: Once<pg.PoolClient>, tenant: string) => Take> = {
  'once.within': (once, tenant) => (tx, id, work) =>
    once.within(tx, { tenant, scope: 'inbox', key: id }, async () => {
      await tx.query('insert into things (id) values ($1)', [id])
      await work?.()
    }),
  'consumer.within': (once, tenant) => {
    const works = new Map<string, (() => Promise<unknown>) | undefined>()
    const consumer = once.consumer('inbox', { tenant }, async (tx, { id }) => {
      await tx.query('insert into things (id) values ($1)', [id])
      await works.get(id)?.()
    })
    return (tx, id, work) => {
      works.set(id, work)
      return consumer.within(tx, { id, body: null })
    }
  },
}

async function messages(way: keyof typeof ways) {
  const bundle = await setup(database)
  const prefix = crypto.randomUUID()
  const take = ways[way]?.(bundle.once, bundle.tenant) as Take
  return {
    ...bundle,
    take: ((tx, name, work) => take(tx, `${prefix} ${name}`, work)) as Take,
    /** The messages whose row and key are both there. A row without its key, or a key without its row, is a fault. */
    async taken() {
      const rows = (await bundle.things()).filter((id) => id.startsWith(prefix))
      const { rows: keys } = await database.pool.query('select key from oncekey.keys where tenant = $1 and state = $2 order by key', [
        bundle.tenant,
        'complete',
      ])
      expect(keys.map(({ key }) => key)).toEqual(rows)
      return rows.map((id) => id.slice(prefix.length + 1))
    },
  }
}

async function inTransaction(work: (tx: pg.PoolClient) => Promise<void>): Promise<void> {
  const tx = await database.pool.connect()
  try {
    await tx.query('begin')
    await work(tx)
    await tx.query('commit')
  } finally {
    tx.release()
  }
}

const told = (ends: readonly PromiseSettledResult<unknown>[]) =>
  ends.map((end) => (end.status === 'fulfilled' ? (end.value as { kind: string }).kind : (end.reason.code ?? end.reason.message)))

const fails = () => Promise.reject(new Error('no'))
const overlap = expect.objectContaining({ code: 'steps_overlap' })

test.each(Object.keys(ways))(
  '%s: of two at once the first is kept with its key, and the second is refused before it sends anything',
  async (way) => {
    const { take, taken } = await messages(way)
    let ran = false
    await inTransaction(async (tx) => {
      const ends = await Promise.allSettled([
        take(tx, 'a'),
        take(tx, 'b', async () => {
          ran = true
          throw new Error('no')
        }),
      ])
      expect(told(ends)).toEqual(['executed', 'steps_overlap'])
    })
    expect([ran, await taken()]).toEqual([false, ['a']])
  },
)

test.each(Object.keys(ways))('%s: one after the other, also after one that failed, is as ever', async (way) => {
  const { take, taken } = await messages(way)
  await inTransaction(async (tx) => {
    expect(await take(tx, 'a')).toMatchObject({ kind: 'executed' })
    await expect(take(tx, 'b', fails)).rejects.toThrow('no')
    expect(await take(tx, 'c')).toMatchObject({ kind: 'executed' })
    expect(await take(tx, 'a')).toMatchObject({ kind: 'replayed' })
  })
  expect(await taken()).toEqual(['a', 'c'])
})

test.each(Object.keys(ways))('%s: nested ones work, deep and in order, and are undone alone', async (way) => {
  const { take, taken } = await messages(way)
  await inTransaction(async (tx) => {
    await take(tx, 'a', async () => {
      await take(tx, 'a1', async () => {
        await take(tx, 'a11')
        await expect(take(tx, 'a12', fails)).rejects.toThrow('no')
      })
      await expect(take(tx, 'a2', () => take(tx, 'a21').then(fails))).rejects.toThrow('no')
      await take(tx, 'a3')
    })
  })
  expect(await taken()).toEqual(['a', 'a1', 'a11', 'a3'])
})

test.each(Object.keys(ways))('%s: of two nested ones at once the second is refused', async (way) => {
  const { take, taken } = await messages(way)
  await inTransaction(async (tx) => {
    await take(tx, 'a', async () => {
      expect(told(await Promise.allSettled([take(tx, 'a1'), take(tx, 'a2')]))).toEqual(['executed', 'steps_overlap'])
    })
  })
  expect(await taken()).toEqual(['a', 'a1'])
})

test.each(Object.keys(ways))('%s: an error of one beside another undoes both with the one around them, and nothing else', async (way) => {
  const { take, taken } = await messages(way)
  await inTransaction(async (tx) => {
    await take(tx, 'before')
    // The first is under way while Promise.all fails: it ends before anything is undone.
    await expect(take(tx, 'a', () => Promise.all([take(tx, 'a1'), take(tx, 'a2')]))).rejects.toEqual(overlap)
    await take(tx, 'after')
  })
  expect(await taken()).toEqual(['after', 'before'])
})

test.each(Object.keys(ways))('%s: a nested one that is not awaited fails the one around it, and both are undone', async (way) => {
  const { take, taken } = await messages(way)
  await inTransaction(async (tx) => {
    const forgets = take(tx, 'a', async () => void take(tx, 'a1'))
    await expect(forgets).rejects.toMatchObject({ code: 'steps_overlap', message: expect.stringContaining("a1' was under way") })
    await take(tx, 'after')
  })
  expect(await taken()).toEqual(['after'])
})

test.each(Object.keys(ways))('%s: two transactions have nothing to do with each other, also one inside the other', async (way) => {
  const { take, taken } = await messages(way)
  await inTransaction(async (one) => {
    await inTransaction(async (other) => {
      expect(told(await Promise.allSettled([take(one, 'a'), take(other, 'b')]))).toEqual(['executed', 'executed'])
      await take(one, 'c', () => take(other, 'd', () => take(one, 'e')))
    })
  })
  expect(await taken()).toEqual(['a', 'b', 'c', 'd', 'e'])
})

test.each(Object.keys(ways))('%s: the same holds in a phase, a finish and local work', async (way) => {
  const { once, tenant, take, taken, key } = await messages(way)
  const both = async (tx: pg.PoolClient, name: string) => {
    expect(told(await Promise.allSettled([take(tx, `${name} a`), take(tx, `${name} b`, fails)]))).toEqual(['executed', 'steps_overlap'])
    await take(tx, `${name} c`, () => take(tx, `${name} d`))
  }
  const operation = once.operation('steps', {}, async (run) => {
    await run.phase('phase', (tx) => both(tx, 'phase'))
    return run.finish(async (tx) => {
      await both(tx, 'finish')
      return reply(201)
    })
  })
  const local = once.local('local', {}, async (tx) => {
    await both(tx, 'local')
    return reply(201)
  })
  // Their own keys would be keys without rows.
  const finished = () => database.pool.query(`delete from oncekey.keys where tenant = $1 and scope in ('steps', 'local')`, [tenant])
  expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect((await local.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  expect((await key('k')).state).toBe('complete')
  await finished()
  expect(await taken()).toEqual(['finish', 'local', 'phase'].flatMap((name) => ['a', 'c', 'd'].map((id) => `${name} ${id}`)))
})

test.each(Object.keys(ways))(
  '%s: one that a phase, a finish, local work or a consumer does not await fails it, and nothing is committed',
  async (way) => {
    const { once, tenant, take, taken } = await messages(way)
    const request = { tenant, key: 'k', input: null }
    const forgets = async (tx: pg.PoolClient) => void take(tx, 'forgotten')
    const inPhase = once.operation('phase', {}, async (run) => {
      await run.phase('forgets', forgets)
      return reply(201)
    })
    const inFinish = once.operation('finish', {}, (run) => run.finish((tx) => forgets(tx).then(() => reply(201))))
    const inLocal = once.local('local', {}, (tx) => forgets(tx).then(() => reply(201)))
    const inConsumer = once.consumer('consumer', { tenant }, forgets)
    const handle = () => inConsumer.handle({ id: 'm', body: null })
    for (const attempt of [() => inPhase.run(request), () => inFinish.run(request), () => inLocal.run(request), handle]) {
      await expect(attempt()).rejects.toMatchObject({ code: 'steps_overlap', message: expect.stringContaining("forgotten' was under way") })
    }
    expect(await taken()).toEqual([])
  },
)

test.each(Object.keys(ways))('%s: one whose savepoint is gone says so, and nothing of its transaction is committed', async (way) => {
  const { take, taken } = await messages(way)
  for (const after of [fails, async () => {}]) {
    await inTransaction(async (tx) => {
      await take(tx, 'before')
      await tx.query('savepoint mine')
      const undone = take(tx, 'a', () => tx.query('rollback to savepoint mine').then(after))
      await expect(undone).rejects.toMatchObject({
        code: 'steps_overlap',
        message: expect.stringContaining('roll back the whole transaction'),
      })
    })
  }
  expect(await taken()).toEqual([])
})

test.each(['phase', 'finish'] as const)('in a %s, a job goes with the within that staged it', async (place) => {
  const { once, tenant, take } = await messages('once.within')
  const work = async (run: OperationRun<pg.PoolClient>, tx: pg.PoolClient) => {
    const stage = (name: string) => run.stage(tx, name, null)
    const undone = async () => {
      await stage('undone')
      await take(tx, 'inner', () => stage('undone, inside'))
      throw new Error('no')
    }
    await stage('before')
    await expect(take(tx, 'undone', undone)).rejects.toThrow('no')
    await take(tx, 'outer', async () => {
      await stage('kept')
      await expect(take(tx, 'undone inside', undone)).rejects.toThrow('no')
      await stage('kept, later')
    })
    // What the phase stages itself stays, also while a within is under way.
    let late: Promise<void> | undefined
    const failing = take(tx, 'undone beside', async () => {
      late = new Promise((resolve) => setTimeout(resolve, 10)).then(() => stage('too late'))
      late.catch(() => {})
      throw new Error('no')
    })
    await Promise.all([stage('beside'), expect(failing).rejects.toThrow('no')])
    await expect(late).rejects.toMatchObject({ code: 'stage_outside_phase' })
    return reply(201)
  }
  const operation = once.operation('stages', {}, async (run) => {
    if (place === 'phase') await run.phase('p', async (tx) => void (await work(run, tx)))
    return place === 'phase' ? reply(201) : run.finish((tx) => work(run, tx))
  })
  expect((await operation.run({ tenant, key: 'k', input: null })).kind).toBe('executed')
  const { rows } = await database.pool.query('select name from oncekey.jobs where tenant = $1 order by name', [tenant])
  expect(rows.map(({ name }) => name)).toEqual(['before', 'beside', 'kept', 'kept, later'])
})

test('refuses what is no transaction', async () => {
  const { once, tenant } = await setup(database)
  for (const tx of [undefined, null, 'tx']) {
    await expect(once.within(tx as never, { tenant, scope: 'inbox', key: 'm' }, () => {})).rejects.toMatchObject({ code: 'option_invalid' })
  }
})
