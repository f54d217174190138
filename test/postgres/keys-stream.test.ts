import { describe, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { reconcile } from '../../src/reconcile/index.js'
import { type AnsweredKey, fromPg, type KeysWanted, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
import { memoryMeter } from '../support/memory-meter.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()

/** Finished keys of two tenants, in two scopes. */
async function setup() {
  await database.pool.query('truncate oncekey.keys')
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  for (const tenant of ['a', 'B']) {
    for (let number = 0; number < 7; number += 1) {
      const request = {
        tenant,
        scope: number === 6 ? 'refund' : 'charge',
        key: `k${number}`,
        fingerprint: false,
        afterFailure: 'rerun',
      } as const
      await once.execute(request, () => reply(201, { charge: `${tenant}-${number}` }))
    }
    await once.execute({ tenant, scope: 'charge', key: 'x', fingerprint: false, afterFailure: 'rerun' }, fail).catch(() => {})
  }
  const operator = postgresOperator(fromPg(database.pool))
  const all = async (wanted: KeysWanted, pageSize: number) => {
    const found: AnsweredKey[] = []
    for await (const key of operator.keysStream(wanted, { pageSize })) found.push(key)
    return found
  }
  return { operator, all }
}

function fail(): never {
  throw new Error('the provider is down')
}

describe.each([1, 3, 6, 7, 100])('keysStream, %i at a time', (pageSize) => {
  test('gives finished keys of a scope with their answers, each once, in the order of their ids', async () => {
    const { all } = await setup()
    const found = await all({ tenant: 'a', scope: 'charge' }, pageSize)
    expect(found.map(({ key }) => key).toSorted()).toEqual(['k0', 'k1', 'k2', 'k3', 'k4', 'k5'])
    expect(found.map(({ id }) => id)).toEqual(found.map(({ id }) => id).toSorted())
    for (const { key, answer } of found)
      expect(JSON.parse(Buffer.from(answer?.body ?? []).toString())).toEqual({ charge: `a-${key.slice(1)}` })
  })

  test('goes from tenant to tenant, and gives other states if they are asked for', async () => {
    const { all } = await setup()
    const found = await all({}, pageSize)
    expect(found.map(({ tenant }) => tenant).join('')).toBe('BBBBBBBaaaaaaa')
    expect((await all({ kind: 'pending' }, pageSize)).map(({ tenant, key, answer }) => [tenant, key, answer])).toEqual([
      ['B', 'x', null],
      ['a', 'x', null],
    ])
  })
})

test('its order is one that reconcile() knows, across tenants too', async () => {
  const { operator } = await setup()
  const placeOf = ({ tenant, id }: { tenant: string; id: string }) => `${tenant}\0${id}`
  const { rows } = await database.pool.query<{ tenant: string; id: string }>(
    `select tenant, id::text as id from oncekey.keys where key <> 'k3' order by tenant collate "C", id`,
  )
  const run = reconcile({ local: operator.keysStream({}, { pageSize: 4 }), foreign: rows, key: placeOf })
  const found: string[] = []
  for await (const difference of run) found.push(`${difference.kind} ${'local' in difference ? difference.local.key : ''}`)
  expect(found.toSorted()).toEqual(['only-foreign ', 'only-foreign ', 'only-local k3', 'only-local k3'])
  expect(run.summary.equal).toBe(12)
})

/** Finished keys with answers of so many bytes. */
async function insertAnswers(sizes: readonly number[]) {
  await database.pool.query('truncate oncekey.keys')
  await database.pool.query(
    `insert into oncekey.keys (tenant, id, scope, key, state, incarnation, owner, fence, after_failure, created_at, due_at, expires_at, reap_after,
                               answer_status, answer_headers, answer_body)
     select 'large', gen_random_uuid(), 's', place::text, 'complete', gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now(), 'infinity', 'infinity',
            200, '[]', convert_to(repeat('x', size), 'UTF8')
     from unnest($1::integer[]) with ordinality as answer (size, place)`,
    [sizes],
  )
}

test('a page ends where its answers are too large together, and has at least one', async () => {
  const sizes = [10_000_000, 1_000_000, 5, 0, 3_000_000, 6_000_000, 2_000_000, 2_000_000, 5_000_000, 1]
  await insertAnswers(sizes)
  for (const pageSize of [1, 2, 100]) {
    const { rows } = await database.pool.query<{ size: number }>(
      'select coalesce(octet_length(answer_body), 0) as size from oncekey.keys order by tenant, id',
    )
    const found: number[] = []
    for await (const { answer } of postgresOperator(fromPg(database.pool)).keysStream({ tenant: 'large' }, { pageSize }))
      found.push(answer?.body.length ?? -1)
    expect(found).toEqual(rows.map(({ size }) => size))
  }
})

const count = process.env.ONCEKEY_LONG === '1' ? 700 : 200

test(`a stream of ${count} answers of 1 MB takes less than 100 MB of memory`, async () => {
  await insertAnswers(Array.from({ length: count }, () => 1_000_000))
  const used = memoryMeter()
  const before = used()
  let [seen, most] = [0, 0]
  for await (const { answer } of postgresOperator(fromPg(database.pool)).keysStream({ tenant: 'large' })) {
    seen += answer?.body.length ?? 0
    if (seen % 20_000_000 === 0) most = Math.max(most, used() - before)
  }
  expect(seen).toBe(count * 1_000_000)
  expect(most).toBeLessThan(100_000_000)
})
