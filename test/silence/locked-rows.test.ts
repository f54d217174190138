import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { type TestDatabase, useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { seedKeys } from '../workers/campaign-keys.js'
import { effectsTable, type Flow, tenant } from './flows.js'
import { insist } from './insist.js'
import { allEnded, comes, inShort, late, p99, retried, violations } from './invariants.js'
import { isEnded, leaveWork } from './left-work.js'
import { faultMs, healthyMs, limits, recoveryMs } from './limits.js'
import { type Outside, startOutside } from './outside.js'
import { afterwards, inGroups, warmedUp } from './rest.js'
import { type Service, startService } from './service.js'

/** The one of docs/guide/rows-that-point-at-keys.md. */
const ordersTable = `
  create table orders (id integer primary key, key_tenant text, key_id uuid,
    foreign key (key_tenant, key_id) references oncekey.keys (tenant, id) on delete set null);
  create index orders_key on orders (key_tenant, key_id)`

/** Fewer than there are retries while the rows are locked. */
const connections = 6

interface Setting {
  readonly database: TestDatabase
  readonly service: Service
  readonly outside: Outside
}

interface Scenario {
  readonly name: string
  /** How long a delivery may take, if it is held for as long as the test needs. */
  readonly deliveryMs?: number
  /** What is there before. What it returns is called when the rows are locked. */
  // biome-ignore lint/suspicious/noConfusingVoidType: most have nothing to do then.
  prepare(setting: Setting): Promise<(() => void) | void>
  /** What somebody locks. */
  readonly lock: string | ((client: pg.PoolClient, database: TestDatabase) => Promise<unknown>)
  /** The keys that clients retry meanwhile. */
  readonly retried: readonly (readonly [Flow, string])[]
  /** What must come while the rows are locked, in words. */
  readonly meanwhile?: Readonly<Record<string, (setting: Setting) => Promise<boolean> | boolean>>
  /** What must come when they are not locked any more. */
  readonly afterwards?: Readonly<Record<string, (setting: Setting) => Promise<boolean> | boolean>>
}

const abandoned =
  (flow: Flow, key: string) =>
  async ({ database: { pool } }: Setting) => {
    await seedKeys(pool, tenant, flow, [{ key, state: 'processing' }])
    await pool.query('update oncekey.keys set after_failure = $2, request = null where key = $1', [
      key,
      flow === 'store' ? 'store' : 'rerun',
    ])
  }
const rowOf = (key: string) => `select from oncekey.keys where key = '${key}' for update`

const scenarios: readonly Scenario[] = [
  {
    name: 'an abandoned key',
    prepare: abandoned('rerun', 'locked'),
    lock: rowOf('locked'),
    retried: [['rerun', 'locked']],
  },
  {
    name: 'an abandoned key whose failure is stored',
    prepare: abandoned('store', 'locked'),
    lock: rowOf('locked'),
    retried: [['store', 'locked']],
  },
  {
    name: 'an expired key that is used again',
    async prepare({ service, database: { pool } }) {
      await service.stopBackground()
      await service.requests(['rerun', { id: 'locked' }])
      await pool.query(
        `update oncekey.keys set expires_at = now() - interval '1 hour', reap_after = now() - interval '1 hour' where key = 'locked'`,
      )
    },
    lock: rowOf('locked'),
    retried: [['rerun', 'locked']],
  },
  {
    name: 'a message that another process has in an open transaction',
    prepare: async () => {},
    lock: (client, { pool }) =>
      createOnce({ store: postgresStore(fromPg(pool)) }).within(client, { tenant, scope: 'consumer', key: 'locked' }, () => {}),
    // Eight clients: more than connections.
    retried: [
      ['consumer', 'locked'],
      ['consumer', 'locked'],
    ],
  },
  {
    name: 'one of the jobs that were delivered together',
    deliveryMs: 60_000,
    async prepare({ service, outside, database: { pool } }) {
      const release = outside.hold()
      await service.requests(...Array.from({ length: 20 }, (_, index) => ['operation', { id: `job-${index}` }] as const))
      await waitUntil('the relay has them', async () => {
        const { rows } = await pool.query(`select from oncekey.jobs where token is not null and payload::json ->> 'key' like 'job-%'`)
        return rows.length === 20
      })
      return release
    },
    lock: `select from oncekey.jobs where payload::json ->> 'key' = 'job-0' for update`,
    retried: [],
    meanwhile: {
      'the other jobs are settled': async ({ database: { pool } }) =>
        (await pool.query(`select from oncekey.jobs where payload::json ->> 'key' like 'job-%'`)).rows.length === 1,
    },
    afterwards: {
      'all jobs are settled': async ({ database: { pool } }) => (await pool.query('select from oncekey.jobs')).rows.length === 0,
      'none of the others was delivered twice': ({ outside }) =>
        [...outside.jobs.values()].every(({ key, times }) => times === 1 || key === 'job-0'),
    },
  },
  {
    name: 'an order that points at an expired key',
    async prepare({ service, database: { pool } }) {
      await service.stopBackground()
      await service.requests(...['pointed-at', 'beside-1', 'beside-2'].map((id) => ['rerun', { id }] as const))
      await pool.query(`insert into orders select 1, tenant, id from oncekey.keys where key = 'pointed-at'`)
      await pool.query(
        `update oncekey.keys set expires_at = now() - interval '1 hour', reap_after = now() - interval '1 hour'
           where key in ('pointed-at', 'beside-1', 'beside-2')`,
      )
      return () => void service.startBackground()
    },
    lock: 'select from orders where id = 1 for update',
    retried: [['rerun', 'beside-2']],
    meanwhile: {
      'keys that have nothing to do with it are reaped': async ({ database: { pool } }) =>
        (await pool.query(`select from oncekey.keys where key like 'beside-%' and expires_at < now()`)).rows.length === 0,
      'keys that expired meanwhile are reaped': async ({ database: { pool } }) =>
        (await pool.query(`select from oncekey.keys where tenant = 'others'`)).rows.length === 0,
    },
    afterwards: {
      'the key is reaped, and the order points at nothing': async ({ database: { pool } }) =>
        // A key that could not be deleted is left alone for a minute: the minute passes.
        (await pool.query(`update oncekey.keys set reap_after = now() where key = 'pointed-at' and reap_after > now()`)) &&
        (await pool.query('select from orders where key_id is null')).rows.length === 1,
    },
  },
  {
    name: 'the row of the sweeper',
    prepare: async () => {},
    lock: `select from oncekey.upkeep where name = 'sweep' for update`,
    retried: [],
    meanwhile: { 'waiting keys are complete': ({ database: { pool } }) => isEnded(pool, 'waiting-meanwhile') },
    afterwards: { 'abandoned keys are complete': ({ database: { pool } }) => isEnded(pool, 'abandoned-meanwhile') },
  },
]

const databases = scenarios.map(() => useDatabase())

beforeAll(async () => {
  for (const { pool } of databases) await pool.query(`${effectsTable}; ${ordersTable}`)
})

test('rows that somebody has locked hold up nothing but themselves', { timeout: 1_200_000 }, async () => {
  const found = await inGroups(
    4,
    scenarios.map((scenario, index) => () => lockRows(scenario, databases[index] as TestDatabase)),
  )
  for (const [index, { name }] of scenarios.entries()) expect.soft(found[index], `locked: ${name}`).toEqual([])
})

/** Returns what is wrong, a line each. */
async function lockRows(scenario: Scenario, database: TestDatabase): Promise<string[]> {
  const { pool } = database
  const wrong: string[] = []
  const outside = await startOutside()
  const service = await startService(database.url, outside, {
    limits: { ...limits, connections },
    deliveryMs: scenario.deliveryMs,
  })
  const setting = { database, service, outside }
  const before = await warmedUp(service)
  const locked = await scenario.prepare(setting)
  const client = await pool.connect()
  await client.query('begin')
  await (typeof scenario.lock === 'string' ? client.query(scenario.lock) : scenario.lock(client, database))
  const lockedAt = performance.now()
  locked?.()

  await leaveWork(pool, 'meanwhile')
  await service.watch()
  await service.load('unrelated', 3, ['rerun', 'store', 'local', 'consumer'])
  const insisted = insist(service, scenario.retried)
  wrong.push(...(await missing(setting, scenario.meanwhile, 'while the rows are locked')))
  await waitUntil('the rows are not locked any more', () => performance.now() - lockedAt > faultMs.locked, 2 * faultMs.locked)
  const told = await insisted.end()
  await service.endLoad()
  told.push(...(await allEnded(service)))
  const unrelated = p99(told.filter(({ key }) => key.startsWith('unrelated')))
  const machineMs = await service.endWatch()
  if (unrelated > healthyMs + machineMs) wrong.push(`p99 of unrelated keys: ${unrelated} ms, and ${machineMs} ms of it are the machine's`)
  wrong.push(...late(told, service.ran, machineMs))

  await client.query('rollback')
  client.release()
  await service.startBackground()
  wrong.push(...(await missing(setting, scenario.afterwards, 'afterwards')))
  const last = await retried(service, scenario.retried)
  wrong.push(...last.stuck.map((key) => `stuck: ${key}`))
  wrong.push(...(await violations(pool, outside, [...told, ...last.told])))
  wrong.push(...(await afterwards(service, before)))
  return inShort(wrong)
}

async function missing(setting: Setting, expected: Scenario['meanwhile'] = {}, when: string): Promise<string[]> {
  const most = when === 'afterwards' ? recoveryMs : Math.max(faultMs.locked, limits.storeTimeoutMs + limits.leaseMs)
  const found = await Promise.all(
    Object.entries(expected).map(async ([what, condition]) =>
      (await comes(() => condition(setting), most)) ? [] : [`not ${when}: ${what}`],
    ),
  )
  return found.flat()
}
