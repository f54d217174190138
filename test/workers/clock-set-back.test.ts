// The database's clock was ahead, and was set back: leases and turns of that time lie far in the future.
import { expect, test } from 'vitest'
import { reply } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { relay, sweeper } from '../../src/workers/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { leaseMs, setup } from './setup.js'

const database = useDatabase()

test('a sweeper that was restarted takes the turn of the future, and not one that is an honest one', async () => {
  const { once, abandon, advance } = await setup(database)
  await abandon('k')
  await advance(leaseMs + 1)
  await sweeper(once).runOnce()
  await abandon('later')
  await advance(leaseMs + 1)
  const hold = (until: string) =>
    database.pool.query(
      `update oncekey.upkeep set holder = gen_random_uuid(), held_until = now() + interval '${until}' where name = 'sweep'`,
    )
  await hold('50 minutes')
  expect(await sweeper(once).runOnce()).toMatchObject({ pending: 0 })
  await hold('1 day')
  expect(await sweeper(once).runOnce()).toMatchObject({ pending: 1 })
})

test('a turn of the future is free for the next one', async () => {
  const { turns } = postgresStore(connectionTo(database.pool))
  const take = () => turns.turnTake({ name: 'a turn', holder: crypto.randomUUID(), turnMs: 60_000, early: true })
  expect(await take()).toBeDefined()
  expect(await take()).toBeUndefined()
  await database.pool.query(`update oncekey.upkeep set held_until = now() + interval '1 day' where name = 'a turn'`)
  expect(await take()).toBeDefined()
})

test.each([
  [false, null],
  [false, 'group'],
  [true, null],
  [true, 'group'],
])('a job that was taken in the future is delivered (distributed: %s, group: %s)', async (distributed, group) => {
  const { once, tenant } = await setup(database, { distributed })
  const operation = once.operation(`jobs.${crypto.randomUUID()}`, {}, async (run) => {
    await run.phase('p', async (tx) => void (await run.stage(tx, 'job', {}, group ? { group } : {})))
    return reply(201)
  })
  await operation.run({ tenant, key: 'k', input: {} })
  const lock = (until: string) =>
    database.pool.query(
      `update oncekey.jobs set locked_until = now() + interval '${until}', token = gen_random_uuid(), attempts = 1 where tenant = $1`,
      [tenant],
    )
  const delivered: string[] = []
  const service = relay(once, { sink: async (job) => void delivered.push(job.name) })
  await lock('50 minutes')
  await service.runOnce()
  expect(delivered).toEqual([])
  await lock('1 day')
  await service.runOnce()
  expect(delivered).toEqual(['job'])
})
