import { IdempotentFetchError } from './client-error.js'
import type { PendingRequest } from './pending-request.js'

/** The user whose requests these are. A function is asked anew for each attempt; nothing or an empty answer is a user who is not logged in. */
export type Owner = string | (() => OwnerId | Promise<OwnerId>)

type OwnerId = string | null | undefined

interface Owned {
  readonly owner?: Owner
}

export async function ownerNow({ owner }: Owned): Promise<string | undefined> {
  const id = (typeof owner === 'function' ? await owner() : owner) || undefined
  if (id === undefined || typeof id === 'string') return id
  throw new IdempotentFetchError('option_invalid', `owner is of type ${typeof id}: name the user by a string.`)
}

export const ownerMissing = (what: string) =>
  new IdempotentFetchError(
    'option_invalid',
    `${what} needs the option owner: name the user whose requests are kept, such as () => session.userId, or 'single' if there is only one.`,
  )

/** Whether the user who made the request is the present one. Credentials are the present user's: with them it would be another request. */
export async function isOwnersNow(settings: Owned, { owner }: Pick<PendingRequest, 'owner'>): Promise<boolean> {
  return (await ownerNow(settings)) === owner
}
