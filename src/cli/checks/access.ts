import { isOncekeyError } from '../../core/errors.js'
import { type Check, fail } from './check.js'

/** An error that stopped the doctor, as a finding; undefined for an unexpected one. */
export function accessCheck(error: unknown): Check | undefined {
  if (isOncekeyError(error, 'store_forbidden')) {
    return fail(
      'access',
      error.message,
      "correct the user or its password, or grant it what 'Least privilege' in docs/guide/postgres.md lists",
    )
  }
  if (isOncekeyError(error, 'store_unavailable') || isOncekeyError(error, 'store_timeout')) {
    return fail('reachable', error.message, 'check the address, the name of the database, the network, the server and its limits')
  }
  return undefined
}
