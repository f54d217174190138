import pg from 'pg'
import { startPostgres } from '../../test/support/postgres/server.js'

const schema = 'oncekey_bench_layout'

/**
 * fsync and synchronous_commit keep their default, on. The WAL limits keep checkpoints out of the measured rounds (a round
 * after a checkpoint is measured on purpose, see run.ts), and `min_wal_size` keeps recycled segments, because a new one is
 * zero-filled first.
 */
const flags = {
  shared_buffers: '4GB',
  max_wal_size: '20GB',
  min_wal_size: '4GB',
  checkpoint_timeout: '1h',
  wal_buffers: '64MB',
  maintenance_work_mem: '512MB',
}

/** On a fresh table the planner prefers hash join + sequential scan: these compare the layouts instead of the plans. */
export const sessionSettings = {
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_seqscan: 'off',
  plan_cache_mode: 'force_generic_plan',
  jit: 'off',
}

const reported = ['server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums', 'wal_level', ...Object.keys(flags)]

export interface BenchServer {
  settings: Record<string, string>
  ours: boolean
  /** For set-up and counters: plain planner settings. */
  admin: pg.Client
  /** For the workload: `sessionSettings`. */
  connect(): Promise<pg.Client>
  stop(): Promise<void>
}

export async function startServer({ small }: { small: boolean }): Promise<BenchServer> {
  const given = process.env.DATABASE_URL
  const own = given ? undefined : await startPostgres({ flags: small ? { ...flags, shared_buffers: '256MB' } : flags })
  const url = given ?? (own?.url as string)
  const clients: pg.Client[] = []
  const open = async (session: Record<string, string>) => {
    const options = Object.entries({ search_path: schema, ...session }).map(([name, value]) => `-c ${name}=${value}`)
    const client = new pg.Client({ connectionString: url, options: options.join(' ') })
    await client.connect()
    clients.push(client)
    return client
  }

  const admin = await open({})
  await admin.query(`drop schema if exists ${schema} cascade; create schema ${schema}`)
  const { rows } = await admin.query('select name, current_setting(name) as value from pg_settings where name = any($1)', [reported])
  return {
    settings: Object.fromEntries(reported.map((name) => [name, rows.find((row) => row.name === name)?.value ?? 'unknown'])),
    ours: own !== undefined,
    admin,
    connect: () => open(sessionSettings),
    async stop() {
      await admin.query(`drop schema ${schema} cascade`)
      await Promise.all(clients.map((client) => client.end()))
      await own?.stop()
    },
  }
}
