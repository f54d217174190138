import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, fromPostgresJs, migrate, postgresStore } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { debianProgram } from '../support/debian-program.js'
import { freePort, startProgram } from '../support/guarded-program.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase({ migrated: false })
const port = await freePort()
const bouncer = new URL(database.url)
bouncer.port = String(port)

/** A real PgBouncer in transaction mode: consecutive statements of one client may run in different sessions. */
beforeAll(async () => {
  const program = await debianProgram('pgbouncer', ['pgbouncer', 'libevent-2.1-7', 'libc-ares2'])
  const folder = await mkdtemp(join(tmpdir(), 'oncekey-pgbouncer-'))
  await chmod(folder, 0o755)
  afterAll(() => rm(folder, { recursive: true, force: true }))
  const target = new URL(database.url)
  const config = join(folder, 'pgbouncer.ini')
  await writeFile(
    config,
    `[databases]
* = host=${target.hostname} port=${target.port} user=${target.username}${target.password ? ` password=${target.password}` : ''}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
`,
  )
  // PgBouncer does not run as root, but knows how to become somebody else.
  const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
  const { output } = startProgram(program, [...account, config])
  await waitUntil(`PgBouncer answers (${output()})`, async () => {
    const client = new pg.Client({ connectionString: bouncer.href })
    return client.connect().then(
      () => client.end().then(() => true),
      () => false,
    )
  })
  await migrate(fromPg(database.createPool({ connectionString: bouncer.href })))
})

describe('through pg', () => {
  exerciseStore({ test, setup: () => postgresHarness(fromPg(database.createPool({ connectionString: bouncer.href, max: 10 }))) })
})

describe('through postgres.js', () => {
  const sql = postgres(bouncer.href, { max: 10, prepare: false, onnotice: () => {} })
  afterAll(() => sql.end())
  exerciseStore({ test, setup: () => postgresHarness(fromPostgresJs(sql)) })
})

test('runs each of 50 keys once with more clients than the pooler has sessions, heartbeats included', async () => {
  const pool = database.createPool({ connectionString: bouncer.href, max: 40 })
  const once = createOnce({ store: postgresStore(fromPg(pool)), lease: '1m', storeTimeout: '1m' })
  let runs = 0
  const outcomes = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      once.execute({ tenant: 'bouncer', scope: 's', key: `key-${index % 50}`, fingerprint: false, afterFailure: 'rerun' }, async () => {
        runs += 1
        return reply(200)
      }),
    ),
  )
  expect(runs).toBe(50)
  expect(outcomes.filter(({ kind }) => kind === 'executed')).toHaveLength(50)
})
