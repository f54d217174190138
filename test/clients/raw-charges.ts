// The charges service, as a plain socket sees it.
import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { type ServiceOptions, type Stack, startCharges } from './charges-service.js'
import { openRaw, type RawConnection, type RawResponse } from './raw-connection.js'

export const keyLine = (key: string) => `Idempotency-Key: "${key}"`

/** What matters of a response, in one line. */
export function told({ status, headers, body }: RawResponse) {
  const json = body === '' ? {} : (JSON.parse(body) as { run?: number; code?: string })
  return [status, json.code ?? json.run, headers.has('idempotent-replayed') ? 'replay' : 'first']
}

export const firstRun = [201, 1, 'first']
export const replay = [201, 1, 'replay']
export const inUse = [409, 'key_in_use', 'first']

export async function ask(connection: RawConnection, request: string) {
  connection.send(request)
  return told(await connection.response())
}

/** A service of this stack, a connection to it, and a key that nobody has used. */
export function rawSetup(pool: pg.Pool, stack: Stack) {
  return async (options: Omit<ServiceOptions, 'stack'> = {}) => {
    const service = await startCharges(pool, { stack, ...options })
    return { service, connection: await openRaw(service.port), key: randomUUID() }
  }
}
