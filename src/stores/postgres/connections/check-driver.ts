import { types } from 'node:util'
import { OncekeyError } from '../../../core/errors.js'

/** Now, and in words: else the wrong object is found out by the first statement, which fails in a way that says nothing to its owner. */
export function checkDriver(taker: string, driver: unknown, methods: readonly string[], expected: string): void {
  // One that is opened when it is first used need not be opened now.
  if (types.isProxy(driver)) return
  const members = driver as Readonly<Record<string, unknown>> | null | undefined
  if (methods.every((method) => typeof members?.[method] === 'function')) return
  throw new OncekeyError('option_invalid', `${taker}() needs ${expected}.`)
}

export function checkConnection(taker: string, connection: unknown): void {
  checkDriver(taker, connection, ['query', 'transaction', 'within', 'script'], 'a connection: fromPg(pool), or what another from…() makes')
}
