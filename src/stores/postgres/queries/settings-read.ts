import type { Queryable } from '../connections/connection.js'
import { neededSettings } from '../session-check.js'

export interface ServerFacts {
  /** 160004 for 16.4. */
  readonly versionNumber: number
  readonly version: string
  readonly database: string
  readonly user: string
  /** A standby, or a server that is being restored. */
  readonly inRecovery: boolean
  readonly connections: number
  /** Not by a Unix socket, which knows no time-outs. */
  readonly byTcp: boolean
  /** As they are in force in this very session. Absent where this server has no such setting. */
  readonly settings: Readonly<Record<string, string>>
  /** What `alter role` and `alter database` set for sessions on this database, ours or not. */
  readonly overrides: readonly SettingOverride[]
}

export interface SettingOverride {
  /** Null: for every role. */
  readonly role: string | null
  readonly name: string
  readonly value: string
}

/** What the promises of oncekey, and its upkeep, hang on. */
const names = [
  ...neededSettings.map(({ name }) => name),
  'autovacuum',
  'client_connection_check_interval',
  'default_transaction_read_only',
  'fsync',
  'full_page_writes',
  'idle_in_transaction_session_timeout',
  'lock_timeout',
  'max_connections',
  'search_path',
  'server_encoding',
  'statement_timeout',
  'superuser_reserved_connections',
  'synchronous_commit',
  'synchronous_standby_names',
  'tcp_keepalives_count',
  'tcp_keepalives_idle',
  'tcp_keepalives_interval',
  'tcp_user_timeout',
  'track_counts',
  'transaction_timeout',
]

export async function settingsRead(db: Queryable): Promise<ServerFacts> {
  const [facts = {}] = await db.query(
    `select current_setting('server_version_num')::integer as version_number, current_setting('server_version') as version,
       current_database()::text as database, current_user::text as user, pg_is_in_recovery() as in_recovery,
       (select count(*)::integer from pg_stat_activity where backend_type = 'client backend') as connections,
       inet_client_addr() is not null as by_tcp`,
    [],
  )
  const settings = await db.query('select name, setting from pg_settings where name = any(string_to_array($1, $2))', [names.join(), ','])
  const overrides = await db.query(
    `select role.rolname::text as role, split_part(line, '=', 1) as name, substr(line, strpos(line, '=') + 1) as value
     from pg_db_role_setting as entry cross join unnest(entry.setconfig) as line
     left join pg_roles as role on role.oid = entry.setrole
     where entry.setdatabase in (0, (select oid from pg_database where datname = current_database()))
     order by 1, 2`,
    [],
  )
  return {
    versionNumber: facts.version_number,
    version: facts.version,
    database: facts.database,
    user: facts.user,
    inRecovery: facts.in_recovery,
    connections: facts.connections,
    byTcp: facts.by_tcp,
    settings: Object.fromEntries(settings.map(({ name, setting }) => [name, setting])),
    overrides: overrides.filter(({ name }) => names.includes(name)) as unknown as SettingOverride[],
  }
}
