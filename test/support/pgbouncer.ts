import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { debianProgram } from './debian-program.js'
import { freePort, startProgram } from './guarded-program.js'
import { waitUntil } from './wait-until.js'

/** The address of a real PgBouncer in front of a database, for the test file that calls this. */
export async function usePgbouncer(database: { url: string }, poolMode: 'session' | 'transaction' | 'statement'): Promise<string> {
  const port = await freePort()
  const bouncer = new URL(database.url)
  bouncer.port = String(port)

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
pool_mode = ${poolMode}
default_pool_size = 4
max_client_conn = 200
`,
    )
    // PgBouncer does not run as root, but knows how to become somebody else.
    const account = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
    const server = startProgram(program, [...account, config])
    afterAll(() => server.kill())
    await waitUntil(`PgBouncer answers (${server.output()})`, async () => {
      const client = new pg.Client({ connectionString: bouncer.href })
      return client.connect().then(
        () => client.end().then(() => true),
        () => false,
      )
    })
  })

  return bouncer.href
}
