import type { ServerFacts } from '../../stores/postgres/queries/settings-read.js'
import { lasting } from '../words.js'
import { type Check, ok, warn } from './check.js'

/** A statement of ours takes a few milliseconds, and waits for a lock now and then. */
const shortestMs = 1_000

/** How long the server lets things last. Zero is for ever. */
export function limitChecks({ settings, database }: ServerFacts): Check[] {
  const idle = Number(settings.idle_in_transaction_session_timeout)
  return [
    idle === 0
      ? warn(
          'idle transactions',
          'idle_in_transaction_session_timeout is 0: a process frozen in a phase keeps its locks for ever',
          `alter database ${database} set idle_in_transaction_session_timeout = '60s'`,
        )
      : ok('idle transactions', `ended after ${lasting(idle)}`),
    ...['statement_timeout', 'lock_timeout', 'transaction_timeout'].flatMap((name) => {
      const ms = Number(settings[name] ?? 0)
      if (ms === 0) return []
      return ms < shortestMs
        ? [
            warn(
              name,
              `it is ${lasting(ms)}: on a busy day statements of oncekey are cut off`,
              `raise it to ${lasting(shortestMs)} or more`,
            ),
          ]
        : [ok(name, `it is ${lasting(ms)}`)]
    }),
  ]
}
