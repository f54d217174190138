import type pg from 'pg'
import { bodyOf, createOnce, type ExecuteOptions, type OnceOptions, reply } from '../../src/index.js'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from './postgres/connection.js'

/** The test's side of a key that a child process holds: asks for it as any retry would. */
export function retrier(pool: pg.Pool, key: string, options: Omit<OnceOptions, 'store'> = {}) {
  const once = createOnce({ store: postgresStore(connectionTo(pool)), ...options })
  const request: ExecuteOptions = { tenant: 'crash', scope: 'crash', key, fingerprint: { value: key }, afterFailure: 'rerun' }
  return {
    /** One retry: runs the work if the key is free, and says what came of it and by whom it was done. */
    async retry() {
      const outcome = await once.execute(request, () => reply(200, { by: process.pid }))
      const done = outcome.kind === 'executed' || (outcome.kind === 'replayed' && outcome.state === 'complete')
      const by = done ? bodyOf(outcome.answer).by : null
      return { kind: outcome.kind, by }
    },
  }
}
