import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { startPostgres } from '../support/postgres/server.js'
import { waitUntil } from '../support/wait-until.js'

// A server of its own that logs every statement: what it was asked is counted there, not in our code.
const folder = await mkdtemp(join(tmpdir(), 'oncekey-log-'))
const logFile = join(folder, 'postgres.log')
let server: Awaited<ReturnType<typeof startPostgres>>

beforeAll(async () => {
  server = await startPostgres({ logFile, flags: { log_statement: 'all', log_line_prefix: '@%a@' } })
  const pool = new pg.Pool({ connectionString: server.url })
  await migrate(fromPg(pool))
  await pool.query('create table things (id text primary key)')
  await pool.end()
})

afterAll(async () => {
  await server?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** The statements that the server saw of that application, as `begin`, `commit`, `user` (the test's own) or `ours`. */
async function statementsOf(application: string): Promise<string[]> {
  const entries = (await readFile(logFile, 'utf8')).split(/^@(?=[^@\n]*@)/m)
  return entries
    .filter((entry) => entry.startsWith(`${application}@`))
    .flatMap((entry) => /LOG: {2}(?:statement|execute [^:]*): ([\s\S]*)/.exec(entry)?.[1] ?? [])
    .map((text) => {
      const word = /^\s*(begin|commit|rollback|select 'the beginning'|select 'the end')/i.exec(text)?.[1]
      return word?.toLowerCase() ?? (text.includes('things') ? 'user' : 'ours')
    })
}

/** Runs on a connection of its own, warm, and returns what the server saw of it. */
async function count(name: string, work: (once: ReturnType<typeof serviceOn>) => Promise<unknown>): Promise<string[]> {
  const own = new pg.Pool({ connectionString: server.url, max: 1, application_name: name })
  // The server stops before the last connection has said goodbye.
  own.on('error', () => {})
  const once = serviceOn(own)
  // The schema is checked once in a process, and what the pool can do is found out behind its first statement: that is not what a request costs.
  await once.execute({ tenant: 'warm', scope: name, key: 'up', fingerprint: false, afterFailure: 'rerun' }, () => reply(200))
  await own.query(`select 'the beginning'`)
  await work(once)
  await own.query(`select 'the end'`)
  await own.end()
  const log = await waitUntil('the log is written', async () => {
    const statements = await statementsOf(name)
    return statements.at(-1) === "select 'the end'" ? statements : undefined
  })
  // Before the mark: the checks of the schema and of the session, claim and finish of the warm-up, whether bytes arrive as such, whose process the connection is.
  expect(log.indexOf("select 'the beginning'")).toBe(6)
  return log.slice(7, -1)
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

const opaque = { tenant: 't', scope: 'opaque', fingerprint: false, afterFailure: 'rerun' } as const

test('opaque work that uses no steps pays nothing for them, on its first attempt and on the next', async () => {
  const statements = await count('opaque_plain', async (once) => {
    const work = ({ attempt }: { attempt: number }) => {
      if (attempt === 1) throw new Error('half-way')
      return reply(201)
    }
    await expect(once.execute({ ...opaque, key: 'plain' }, work)).rejects.toThrow('half-way')
    await once.execute({ ...opaque, key: 'plain' }, work)
  })
  // Claim and release; claim, take-over and finish.
  expect(statements).toEqual(['ours', 'ours', 'ours', 'ours', 'ours'])
})

test('opaque work with a phase and a call costs what an operation does, and one statement to read them when it is resumed', async () => {
  const statements = await count('opaque_steps', async (once) => {
    const run = (fail: boolean) =>
      once.execute({ ...opaque, key: 'steps' }, async (run) => {
        await run.phase('ordered', (tx) => insert(tx).then(() => {}))
        const charge = await run.call('charged', () => ({ id: 'ch_1' }))
        if (fail) throw new Error('half-way')
        return reply(201, charge)
      })
    await expect(run(true)).rejects.toThrow('half-way')
    await run(false)
  })
  expect(statements.slice(0, 6)).toEqual(['ours', 'begin', 'user', 'ours', 'commit', 'ours'])
  // Claim, take-over, steps, finish.
  expect(statements.slice(6)).toEqual(['ours', 'ours', 'ours', 'ours'])
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
