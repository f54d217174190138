// How the completer's look is planned in a large table: what it reads must not grow with the table.
import { beforeAll, expect, test } from 'vitest'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()
const limit = 20
const scopes = ['busy', 'quiet', 'not there']

beforeAll(async () => {
  // Statistics are what the test says they are.
  await database.pool.query('alter table oncekey.keys set (autovacuum_enabled = false)')
  const columns = `tenant, id, scope, key, state, waiting, request, answer_status, answer_headers, incarnation, owner, fence, after_failure, created_at, due_at, expires_at, reap_after`
  await database.pool.query(`
    insert into oncekey.keys (${columns})
    select 'finished', gen_random_uuid(), 'busy', n::text, 'complete', false, null, 200, '[]', gen_random_uuid(), gen_random_uuid(), 1, 'rerun',
           now(), now() - interval '2 days' + n * interval '0.1 s', now() + interval '1 day', now() + interval '1 day'
    from generate_series(1, 250000) as n`)
  await database.pool.query(`
    insert into oncekey.keys (${columns})
    select 'waiting', gen_random_uuid(), case when n % 10 = 0 then 'quiet' else 'busy' end, n::text, 'pending', true, '\\x6e756c6c', null, null,
           gen_random_uuid(), gen_random_uuid(), 1, 'rerun', now(), now() - interval '1 hour' + n * interval '0.1 s', now() + interval '1 day', now() + interval '1 day'
    from generate_series(1, 30000) as n`)
}, 120_000)

/** The statement of the store, as it is sent. */
async function statement(): Promise<{ text: string; values: readonly unknown[] }> {
  const connection = fromPg(database.pool)
  let sent: { text: string; values: readonly unknown[] } | undefined
  const store = postgresStore({
    ...connection,
    async query(text: string, values: Parameters<typeof connection.query>[1]) {
      if (text.includes('json_array_elements_text')) sent = { text, values }
      return connection.query(text, values)
    },
  })
  expect(await store.upkeep.keysWaiting({ scopes, limit })).toHaveLength(limit)
  return sent as never
}

interface Plan {
  readonly 'Index Name'?: string
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

function scansOfKeys(plan: Plan): Plan[] {
  return [...(plan['Relation Name'] === 'keys' ? [plan] : []), ...(plan.Plans ?? []).flatMap(scansOfKeys)]
}

test.each([
  ['not analysed', 'force_custom_plan'],
  ['not analysed', 'force_generic_plan'],
  ['analysed', 'force_custom_plan'],
  ['analysed', 'force_generic_plan'],
])('reads no more than it may return of each scope, by the small index: %s, %s', async (statistics, mode) => {
  const { text, values } = await statement()
  const client = await database.pool.connect()
  try {
    await client.query('begin')
    // Only here: the next test begins without statistics, too.
    if (statistics === 'analysed') await client.query('analyze oncekey.keys')
    await client.query(`set local plan_cache_mode = ${mode}`)
    await client.query(`prepare waiting (text, bigint, text) as ${text}`)
    const literals = values.map((value) => `'${String(value)}'`).join(', ')
    const { rows } = await client.query(`explain (analyze, format json) execute waiting (${literals})`)
    const scans = scansOfKeys(rows[0]['QUERY PLAN'][0].Plan)
    expect(scans.map((scan) => scan['Index Name'])).toEqual(['keys_waiting'])
    const read = scans.reduce((sum, scan) => sum + (scan['Actual Rows'] + (scan['Rows Removed by Filter'] ?? 0)) * scan['Actual Loops'], 0)
    expect(read).toBeLessThanOrEqual(limit * scopes.length)
  } finally {
    await client.query('rollback; deallocate all')
    client.release()
  }
})
