import type { ServerFacts } from '../../stores/postgres/queries/settings-read.js'
import { type Check, fail, ok, warn } from './check.js'

/** The oldest release that our SQL supports. */
const oldestVersion = 140_000

/** From this share of connections on, the next deploy may find none left. */
const crowded = 0.8

/** Whether oncekey can work on this server. */
export function serverChecks({ version, versionNumber, database, user, inRecovery, connections, settings }: ServerFacts): Check[] {
  const where = `Postgres ${version}, database ${database}, as ${user}`
  const usable = Number(settings.max_connections) - Number(settings.superuser_reserved_connections ?? 0)
  const taken = `${connections} of ${usable} connections are taken`
  return [
    versionNumber >= oldestVersion ? ok('server', where) : fail('server', `${where} is too old`, 'upgrade to Postgres 14 or later'),
    inRecovery
      ? fail('primary', 'this server is a standby: it takes no writes', 'connect to the primary')
      : ok('primary', 'this server takes writes'),
    settings.default_transaction_read_only === 'on'
      ? fail('read only', 'default_transaction_read_only is on: no key can be claimed', 'switch it off for this role and database')
      : ok('read only', 'transactions may write'),
    connections > usable * crowded
      ? warn('connections', taken, 'use smaller pools, a pooler, or raise max_connections')
      : ok('connections', taken),
  ]
}
