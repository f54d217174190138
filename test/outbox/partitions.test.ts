import { beforeAll, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { down, nothing, setup } from './setup.js'

const database = useDatabase()
const hour = 3_600_000

/** The same columns and indexes, in partitions by tenant. */
beforeAll(async () => {
  const { rows } = await database.pool.query<{ indexdef: string }>(
    `select indexdef from pg_indexes where schemaname = 'oncekey' and tablename = 'jobs'`,
  )
  await database.pool.query(`
    alter table oncekey.jobs rename to plain;
    create table oncekey.jobs (like oncekey.plain including defaults) partition by hash (tenant);
    drop table oncekey.plain;
    ${[0, 1, 2, 3].map((n) => `create table oncekey.jobs_${n} partition of oncekey.jobs for values with (modulus 4, remainder ${n})`).join(';')};
    ${rows.map(({ indexdef }) => indexdef).join(';')}`)
})

test('in hash partitions by tenant, of 400 jobs none is lost and none comes before its time', async () => {
  const { newRelay, got, advance, rows } = await setup(database)
  await database.pool.query(`
    insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at, job_group)
    select 'tenant-' || n % 20, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', n::text, now(), now(),
           case when n % 4 = 0 then 'g' || n end
    from generate_series(1, 400) as n`)
  const service = newRelay({ work: ({ payload, attempt }) => ((payload as number) % 3 === 0 && attempt === 1 ? later() : undefined) })
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 267, failed: 133 })
  expect((await rows()).filter(({ last_error, token }) => last_error !== null && token === null)).toHaveLength(133)
  expect(await service.runOnce()).toEqual(nothing)
  await advance(2 * hour)
  expect(await service.runOnce()).toEqual({ ...nothing, delivered: 133 })
  expect(got.map(({ payload }) => payload as number).sort((a, b) => a - b)).toEqual(Array.from({ length: 400 }, (_, n) => n + 1))
  expect(await rows()).toEqual([])
})

const later = () => ({ ...down(), retryAfterMs: hour })
