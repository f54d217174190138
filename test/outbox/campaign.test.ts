import { expect, test } from 'vitest'
import { seededRandom } from '../phases/seeded-random.js'
import { type Child, startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()
const seed = Number(process.env.ONCEKEY_SEED ?? Math.floor(Math.random() * 2 ** 32))
const long = process.env.ONCEKEY_LONG === '1'

const writers = 4
const lanes = 5
const jobsEach = 10
/** In each portion, of which there is one for each kill. */
const commits = long ? 10 : 2
const kills = long ? 50 : 3
const leaseMs = 1_000
const staged = writers * lanes * commits * jobsEach * kills

test(`delivers every job, and each group in order, by three relays that keep being killed (ONCEKEY_SEED=${seed})`, {
  timeout: 1_200_000,
}, async () => {
  const { pool } = database
  const random = seededRandom(seed)
  await pool.query('create table deliveries (seq bigint generated always as identity, id uuid, label text, number integer, job_group text)')
  const count = async (what: string) => (await pool.query(`select ${what} as count from deliveries`)).rows[0].count as number
  const start = async (): Promise<Child> => {
    const child = startChild('outbox/relayer.ts', { url: database.url, leaseMs })
    await child.message()
    return child
  }
  const relays = await Promise.all([start(), start(), start()])
  const stagers = Array.from({ length: writers }, (_, writer) =>
    startChild('outbox/stager.ts', { url: database.url, writer, lanes, commits, jobsEach }),
  )

  let lateRows = 0
  /** Commits rows with the lowest ids and the oldest times there are, long after they were written. */
  const commitLate = async (kill: number) => {
    const late = await pool.connect()
    await late.query('begin')
    await late.query(
      `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
       select 'campaign', ('00000000-0000-4000-8000-' || lpad(($1 * 100 + n)::text, 12, '0'))::uuid, gen_random_uuid(), gen_random_uuid(), 'job',
              json_build_object('label', 'late-' || $1 || '-' || n, 'number', n)::text, time - interval '1 day', time - interval '1 day'
       from generate_series(1, 5) as n, (select clock_timestamp() as time) as clock`,
      [kill],
    )
    await waitUntil('newer ones are delivered', async () => (await count('count(*)::integer')) >= (kill + 0.8) * (staged / kills))
    await late.query('commit')
    late.release()
    lateRows += 5
  }
  for (let kill = 0; kill < kills; kill += 1) {
    const seat = Math.floor(random() * 3)
    const before = await count('count(*)::integer')
    const late = commitLate(kill)
    for (const child of stagers) child.send('more')
    const portion = Promise.all(stagers.map((child) => child.message()))
    const some = random() * 0.5 * (staged / kills)
    await waitUntil('some are delivered', async () => (await count('count(*)::integer')) > before + some)
    relays[seat]?.signal('SIGKILL')
    // The database is away for a moment, too.
    await pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and query like '%jobs as job%'`,
    )
    relays[seat] = await start()
    await Promise.all([late, portion])
  }
  const total = staged + lateRows
  await waitUntil(
    'every job is delivered',
    async () => (await pool.query('select from oncekey.jobs limit 1')).rows.length === 0,
    long ? 600_000 : 30_000,
  )
  for (const child of relays) child.signal('SIGKILL')

  const { rows } = await pool.query(`
    select count(distinct label)::integer as labels, count(distinct id)::integer as ids, count(*)::integer as deliveries from deliveries`)
  const { labels, ids, deliveries } = rows[0]
  expect({ labels, ids }).toEqual({ labels: total, ids: total })
  const { rows: disorder } = await pool.query(`
    with first as (select job_group, number, min(seq) as seq from deliveries where job_group is not null group by 1, 2)
    select * from (select *, lag(number) over (partition by job_group order by seq) as before from first) as ordered where before > number`)
  expect(disorder).toEqual([])
  process.stdout.write(`${total} jobs, ${kills} kills, ${deliveries - total} delivered more than once\n`)
})
