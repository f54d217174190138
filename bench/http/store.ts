import { Redis } from 'ioredis'
import { createOnce } from 'oncekey'
import { fromPg, postgresStore } from 'oncekey/postgres'
import { fromIoredis, redisFilter } from 'oncekey/redis'
import pg from 'pg'
import type { ServiceSettings } from './start-service.js'

/** What every service does: it makes an order of what was asked for. The answer takes 300 bytes. */
export const orderOf = (item: unknown) => ({ id: 'ord_1', item, note: 'a'.repeat(260) })

/** The options of `idempotency()` in every framework. */
export const options = { tenant: 'single', afterFailure: 'rerun' } as const

export function openStore({ databaseUrl }: ServiceSettings) {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 16, idleTimeoutMillis: 0 })
  pool.on('error', () => {})
  return postgresStore(fromPg(pool))
}

export function openOnce(settings: ServiceSettings) {
  const store = openStore(settings)
  if (settings.way === 'oncekey with an answer cache') return createOnce({ store, answerCache: { maxBytes: 64 * 1024 * 1024 } })
  if (settings.way !== 'oncekey behind Redis') return createOnce({ store })
  const redis = fromIoredis(new Redis(settings.redisUrl as string))
  return createOnce({ store: redisFilter(store, redis, { secrets: [{ id: 'bench', key: Buffer.alloc(32, 'bench') }] }) })
}
