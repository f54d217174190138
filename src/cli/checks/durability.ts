import type { ServerFacts } from '../../stores/postgres/queries/settings-read.js'
import { type Check, fail, ok, warn } from './check.js'

/** A commit that is acknowledged and then lost is a charge made twice. */
export function durabilityChecks({ settings, overrides, user }: ServerFacts): Check[] {
  return [
    settings.fsync === 'on'
      ? ok('fsync', 'commits reach the disk')
      : fail('fsync', 'fsync is off: a power cut loses commits, and may lose the database', 'set fsync = on in postgresql.conf'),
    settings.full_page_writes === 'on'
      ? ok('full_page_writes', 'torn pages are repaired after a crash')
      : fail('full_page_writes', 'full_page_writes is off: a crash may leave torn pages', 'set full_page_writes = on'),
    synchronousCommit(settings),
    ...overrides
      .filter(({ name, value }) => name === 'synchronous_commit' && value === 'off')
      .flatMap(({ role }) => {
        // The settings of this session include its own overrides. A service may run as another role.
        if (role === user || (role === null && settings.synchronous_commit === 'off')) return []
        return [
          warn(
            'synchronous_commit',
            `it is off for ${role === null ? 'all other roles' : `role ${role}`} on this database`,
            `if a service runs as it: ${role === null ? 'reset it for the database, and for all roles' : `alter role ${role} reset synchronous_commit`}`,
          ),
        ]
      }),
  ]
}

function synchronousCommit(settings: ServerFacts['settings']): Check {
  const name = 'synchronous_commit'
  const value = settings[name] ?? 'on'
  if (value === 'off') {
    return fail(
      name,
      'it is off: a server crash loses the last commits, and their work runs again',
      'set it to on for this role and database',
    )
  }
  const standbys = settings.synchronous_standby_names !== ''
  if (standbys && (value === 'local' || value === 'remote_write')) {
    return warn(name, `it is ${value}: a failover may lose the last commits`, 'set it to on, so that a standby has flushed them')
  }
  return ok(name, `it is ${value}`)
}
