import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { startPostgres } from '../support/postgres/server.js'

// A server of its own that logs every statement: what it was asked is counted there, not in our code.
let server: Awaited<ReturnType<typeof startPostgres>>
let pool: pg.Pool

beforeAll(async () => {
  server = await startPostgres({ flags: { logging_collector: 'on', log_statement: 'all', log_line_prefix: '@%a@' } })
  pool = new pg.Pool({ connectionString: server.url })
  await migrate(fromPg(pool))
  await pool.query('create table things (id text primary key)')
})

afterAll(async () => {
  await pool?.end()
  await server?.stop()
})

/** The statements that the server saw of that application, as `begin`, `commit`, `user` (the test's own) or `ours`. */
async function statementsOf(application: string): Promise<string[]> {
  const { rows } = await pool.query('select pg_read_file(pg_current_logfile()) as log')
  const entries = (rows[0].log as string).split(/^@(?=[^@\n]*@)/m)
  return entries
    .filter((entry) => entry.startsWith(`${application}@`))
    .flatMap((entry) => /LOG: {2}(?:statement|execute [^:]*): ([\s\S]*)/.exec(entry)?.[1] ?? [])
    .map((text) => {
      const word = /^\s*(begin|commit|rollback)\b/i.exec(text)?.[1]
      return word?.toLowerCase() ?? (text.includes('things') ? 'user' : 'ours')
    })
}

/** Runs on a connection of its own, warm, and returns what the server saw. */
async function count(name: string, work: (once: ReturnType<typeof serviceOn>) => Promise<unknown>, warmUp = true): Promise<string[]> {
  const own = new pg.Pool({ connectionString: server.url, max: 1 })
  const once = serviceOn(own)
  // The schema is checked once in a process; that is not what a request costs.
  if (warmUp) await once.execute({ tenant: 'warm', scope: name, key: 'up', fingerprint: false, afterFailure: 'rerun' }, () => reply(200))
  await own.query(`set application_name = '${name}'`)
  await work(once)
  await own.end()
  const [first, ...statements] = await statementsOf(name)
  // The SET itself is logged under the name that it sets on some versions only.
  return first === 'ours' && statements.length > 0 && (await startsWithSet(name)) ? statements : [first as string, ...statements]
}

async function startsWithSet(name: string): Promise<boolean> {
  const { rows } = await pool.query('select pg_read_file(pg_current_logfile()) as log')
  return new RegExp(`^@${name}@LOG: +statement: set application_name`, 'm').test(rows[0].log as string)
}

function serviceOn(own: pg.Pool) {
  return createOnce({ store: postgresStore(fromPg(own)) })
}

const insert = (tx: pg.PoolClient) => tx.query('insert into things values (gen_random_uuid()::text)')

test('claim, one phase, one call and the finish are 3 commits and 5 statements of ours', async () => {
  const statements = await count('two_step', async (once) => {
    const operation = once.operation('two-step', {}, async (run) => {
      await run.phase('ordered', (tx) => insert(tx).then(() => {}))
      const charge = await run.call('charged', () => ({ id: 'ch_1' }))
      return reply(201, charge)
    })
    await operation.run({ tenant: 't', key: 'k', input: null })
  })
  expect(statements).toEqual(['ours', 'begin', 'user', 'ours', 'commit', 'ours'])
})

test("a finish with SQL of the user's own makes it 7 statements of ours, and still 3 commits", async () => {
  const statements = await count('with_finish', async (once) => {
    const operation = once.operation('with-finish', {}, async (run) => {
      await run.phase('ordered', (tx) => insert(tx).then(() => {}))
      await run.call('charged', () => ({ id: 'ch_1' }))
      return run.finish(async (tx) => {
        await insert(tx)
        await run.stage(tx, 'receipt', {})
        return reply(201)
      })
    })
    await operation.run({ tenant: 't', key: 'k', input: null })
  })
  expect(statements).toEqual(['ours', 'begin', 'user', 'ours', 'commit', 'begin', 'user', 'ours', 'commit'])
})

test('a replay is 1 statement', async () => {
  const statements = await count('replay', async (once) => {
    const operation = once.operation('two-step', {}, () => reply(500))
    expect((await operation.run({ tenant: 't', key: 'k', input: null })).kind).toBe('replayed')
  })
  expect(statements).toEqual(['ours'])
})

test('local work is 1 commit', async () => {
  const statements = await count('local_work', async (once) => {
    const operation = once.local('local', {}, async (tx) => {
      await insert(tx)
      return reply(201)
    })
    await operation.run({ tenant: 't', key: 'k', input: null })
  })
  expect(statements).toEqual(['begin', 'ours', 'user', 'ours', 'commit'])
})
