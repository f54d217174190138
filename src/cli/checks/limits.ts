import type { ServerFacts } from '../../stores/postgres/queries/settings-read.js'
import { lasting } from '../words.js'
import { type Check, ok, warn } from './check.js'

/** Our statements take a few milliseconds, plus lock waits. */
const shortestMs = 1_000

/** How long a disconnected or frozen client should keep its row locks at most. */
const longestMs = 120_000

/** Time limits of the server. Zero is no limit. */
export function limitChecks(facts: ServerFacts): Check[] {
  const { settings, database } = facts
  const idle = Number(settings.idle_in_transaction_session_timeout)
  return [
    idle === 0
      ? warn(
          'idle transactions',
          'idle_in_transaction_session_timeout is 0: a process frozen in a phase keeps its locks forever',
          `alter database ${database} set idle_in_transaction_session_timeout = '60s'`,
        )
      : ok('idle transactions', `ended after ${lasting(idle)}`),
    ...['statement_timeout', 'lock_timeout', 'transaction_timeout'].flatMap((name) => {
      const ms = Number(settings[name] ?? 0)
      if (ms === 0) return []
      return ms < shortestMs
        ? [warn(name, `it is ${lasting(ms)}: statements of oncekey time out under load`, `raise it to ${lasting(shortestMs)} or more`)]
        : [ok(name, `it is ${lasting(ms)}`)]
    }),
    ...goneClients(facts),
    clientTimeouts,
  ]
}

/**
 * When the server ends the session of a silent client. Keepalives detect a disconnected one. Only `tcp_user_timeout` ends a session that sends
 * rows to a frozen client: until then its statement does not commit, and others wait for its row locks.
 */
function goneClients({ settings, database, byTcp }: ServerFacts): Check[] {
  const name = 'gone clients'
  if (!byTcp) return [ok(name, 'nothing to say: this connection is a Unix socket')]
  const number = (setting: string) => Number(settings[setting] ?? 0)
  const setting = (each: string) => `alter database ${database} set ${each}`
  const unreadMs = number('tcp_user_timeout')
  const cutOffMs = (number('tcp_keepalives_idle') + number('tcp_keepalives_interval') * number('tcp_keepalives_count')) * 1_000
  const found: Check[] = []
  if (unreadMs === 0 || unreadMs > longestMs) {
    const long = unreadMs === 0 ? 'forever' : `for ${lasting(unreadMs)}`
    found.push(
      warn(
        name,
        `tcp_user_timeout is ${unreadMs}: a client frozen while it is sent rows keeps its locks ${long}`,
        setting(`tcp_user_timeout = '30s'`),
      ),
    )
  }
  if (cutOffMs === 0 || cutOffMs > longestMs) {
    const todo = ['idle = 30', 'interval = 10', 'count = 3'].map((each) => setting(`tcp_keepalives_${each}`)).join('; ')
    const long = cutOffMs === 0 ? 'the system default' : lasting(cutOffMs)
    found.push(warn(name, `tcp_keepalives: a client that is cut off keeps its locks for ${long}`, todo))
  }
  if (number('client_connection_check_interval') === 0) {
    found.push(
      warn(
        name,
        'client_connection_check_interval is 0: a statement whose client is gone still waits for its locks',
        setting(`client_connection_check_interval = '10s'`),
      ),
    )
  }
  return found.length > 0 ? found : [ok(name, `noticed after ${lasting(Math.max(unreadMs, cutOffMs))} at most`)]
}

/** The doctor cannot see these: the service sets them on its pool. */
const clientTimeouts = ok(
  'driver time-outs',
  'set them in the service: connectionTimeoutMillis and query_timeout (pg; also under Kysely, Drizzle), connect_timeout and idle_timeout ' +
    '(postgres.js), transactionOptions (Prisma), acquireConnectionTimeout (Knex)',
)
