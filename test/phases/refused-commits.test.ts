import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type OperationRun, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

beforeAll(() =>
  database.pool.query(`
    create table customers (id text primary key);
    create table orders (
      id text primary key,
      customer text references customers deferrable initially deferred,
      number int unique deferrable initially deferred
    );
    create function refuse() returns trigger language plpgsql as $$
    begin
      raise exception 'not on a Sunday' using errcode = 'P0001';
    end $$;
    create constraint trigger refuse after insert on orders deferrable initially deferred for each row
      when (new.id like 'sunday%') execute function refuse();
    insert into orders (id, number) values ('first', 1)`),
)

const violations: Record<string, { code: string; insert: (tx: pg.PoolClient, id: string) => Promise<unknown> }> = {
  'a foreign key': { code: '23503', insert: (tx, id) => tx.query(`insert into orders (id, customer) values ($1, 'nobody')`, [id]) },
  'a unique constraint': { code: '23505', insert: (tx, id) => tx.query('insert into orders (id, number) values ($1, 1)', [id]) },
  'a trigger': { code: 'P0001', insert: (tx, id) => tx.query('insert into orders (id) values ($1)', [`sunday ${id}`]) },
}

const places: Record<string, (run: OperationRun<pg.PoolClient>, work: (tx: pg.PoolClient) => Promise<unknown>) => Promise<unknown>> = {
  phase: (run, work) => run.phase('ordered', (tx) => work(tx).then(() => {})),
  finish: (run, work) => run.finish((tx) => work(tx).then(() => reply(201))),
}

const cases = Object.keys(violations).flatMap((violation) => [...Object.keys(places), 'local'].map((place) => [violation, place] as const))

test.each(cases)(
  'what %s refuses at the commit of a %s comes out as the driver threw it, and the key is given back',
  async (violation, place) => {
    const { once, tenant, key, events } = await setup(database)
    const { code, insert } = violations[violation] as (typeof violations)[string]
    const id = crypto.randomUUID()
    let works = 0
    const work = (tx: pg.PoolClient) => {
      works += 1
      return insert(tx, id)
    }
    const options = { tenant, key: 'k', input: null }
    const error = await (place === 'local'
      ? once.local('ordered', {}, (tx) => work(tx).then(() => reply(201))).run(options)
      : once.operation('ordered', {}, async (run) => places[place]?.(run, work).then(() => reply(201)) ?? reply(500)).run(options)
    ).catch((thrown) => thrown)
    expect(error).toMatchObject({ name: 'error', code })
    expect([works, (await key('k'))?.state]).toEqual([1, place === 'local' ? undefined : 'pending'])
    expect(events).toEqual(['executing', 'released'])
    expect((await database.pool.query('select 1 from orders where id like $1', [`%${id}`])).rows).toEqual([])
  },
)

test('a body may catch what a deferred constraint refuses, and answer', async () => {
  const { once, tenant } = await setup(database)
  const operation = once.operation('catches', {}, async (run) => {
    try {
      await run.phase('ordered', async (tx) => void (await violations['a foreign key']?.insert(tx, 'caught')))
    } catch (error) {
      return reply(422, { constraint: (error as { constraint?: string }).constraint ?? null })
    }
    return reply(201)
  })
  expect(await operation.run({ tenant, key: 'k', input: null })).toMatchObject({ kind: 'executed', answer: { status: 422 } })
})
