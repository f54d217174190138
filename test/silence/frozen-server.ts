import { execFileSync } from 'node:child_process'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { fromPg, migrate } from '../../src/stores/postgres/index.js'
import { startPostgres } from '../support/postgres/server.js'

/** A migrated server of this test's own, all processes of which can be frozen: new connections then hang, too. */
export async function startFreezablePostgres() {
  const server = await startPostgres({ flags: { fsync: 'off', full_page_writes: 'off' } })
  const pool = new pg.Pool({ connectionString: server.url })
  pool.on('error', () => {})
  const [row] = (await pool.query(`select split_part(pg_read_file('postmaster.pid'), chr(10), 1)::integer as pid`)).rows
  const postmaster = (row as { pid: number }).pid
  let frozen: readonly number[] = []

  function freeze(): void {
    // The first one is the one that starts the others.
    process.kill(postmaster, 'SIGSTOP')
    frozen = [postmaster, ...childrenOf(postmaster)]
    for (const pid of frozen) process.kill(pid, 'SIGSTOP')
  }
  function thaw(): void {
    for (const pid of frozen) process.kill(pid, 'SIGCONT')
    frozen = []
  }
  onTestFinished(async () => {
    thaw()
    await pool.end()
    await server.stop()
  })
  await migrate(fromPg(pool))
  return { url: server.url, pool, freeze, thaw }
}

function childrenOf(parent: number): number[] {
  const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')
  return lines.map((line) => line.trim().split(/\s+/).map(Number)).flatMap(([pid, ppid]) => (ppid === parent ? [pid as number] : []))
}
