import type { Contender } from '../harness/contender.js'
import { findPgbench, noPgbench, scriptFile } from '../harness/pgbench.js'
import type { BenchServer } from '../harness/server.js'

/** What a lone request is measured against: by pgbench, with one client. */
export const plainNames = { new: 'a plain insert and update', replay: 'a plain select' } as const

/** So many finished keys are read in turn, as many as orders.lua has hot ones. */
const hotKeys = 2_000
const id = 'md5(:number::text)::uuid'
const columns = `tenant, id, scope, key, state, fence, incarnation, owner, after_failure, fingerprint,
  created_at, expires_at, reap_after, locked_until, due_at`
const values = `'single', ${id}, 'POST /orders', :number::text, 'processing', 1, gen_random_uuid(), gen_random_uuid(), 'rerun', decode(repeat('ab', 37), 'hex'),
  now(), now() + interval '1 day', now() + interval '1 day', now() + interval '1 minute', now() + interval '1 minute'`
const finished = `state = 'complete', locked_until = null, answer_status = 201, answer_headers = '[["content-type","application/json"]]',
  answer_body = decode(repeat('61', 300), 'hex')`

/** The least that a key takes of a table like the store's: one prepared statement for the claim and one for the finish, or one that reads it. */
export async function plainStatements(server: BenchServer): Promise<Readonly<Record<'new' | 'replay', Contender>> | string> {
  const pgbench = await findPgbench(server)
  if (!pgbench) return noPgbench
  const { admin } = server
  await admin.query('drop table if exists bench_plain')
  await admin.query('create table bench_plain (like oncekey.keys including all)')
  const insert = `insert into bench_plain (${columns}) values (${values}) on conflict do nothing`
  const update = `update bench_plain set ${finished} where tenant = 'single' and id = ${id} and fence = 1`
  const select = `select state, fingerprint, answer_status, answer_headers, answer_body from bench_plain where tenant = 'single' and id = ${id}`
  for (const text of [insert, update]) {
    await admin.query(`${text.replaceAll(':number', '$1')}`, ['0'])
  }
  await admin.query(
    `do $$ begin for number in 1..${hotKeys} loop ${insert.replaceAll(':number', 'number')}; ${update.replaceAll(':number', 'number')}; end loop; end $$`,
  )
  const { rows } = await admin.query(
    "select count(*)::integer as count from bench_plain where state = 'complete' and length(answer_body) = 300",
  )
  if (rows[0].count !== hotKeys + 1) throw new Error(`the plain statements finished ${rows[0].count} keys, and not ${hotKeys + 1}`)
  await admin.query('vacuum analyze bench_plain')

  const contender = (name: string, script: readonly string[]): Contender => {
    const parameters = ['-f', scriptFile(name.replaceAll(' ', '-'), script)]
    return { name, run: ({ seconds }) => pgbench.sample('prepared', parameters, { clients: 1, seconds, rows: 1 }) }
  }
  return {
    new: contender(plainNames.new, ['\\set number random(1000000, 9000000000000000000)', `${insert};`, `${update};`].map(oneLine)),
    replay: contender(plainNames.replay, [`\\set number random(1, ${hotKeys})`, `${select};`].map(oneLine)),
  }
}

const oneLine = (text: string) => text.replaceAll(/\s+/g, ' ')
