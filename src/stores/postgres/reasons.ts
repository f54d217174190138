import { isOncekeyError } from '../../core/errors.js'
import { inAscii } from '../../core/json-text.js'
import type { Limit } from '../../core/store.js'

/**
 * Sends a write again if the encoding of the database lacks a character of its reason, which is often an error's text: then with escapes. A
 * reason is for people, and must not keep a key from being released. The first write did nothing.
 */
export function withReason<Params extends { readonly reason?: string | undefined }, Result>(
  write: (params: Params, limit?: Limit) => Promise<Result>,
): (params: Params, limit?: Limit) => Promise<Result> {
  return (params, limit) => {
    const { reason } = params
    if (reason === undefined) return write(params, limit)
    return write(params, limit).catch((error: unknown) => {
      const plain = inAscii(reason)
      if (plain === reason || !isOncekeyError(error, 'text_unsupported')) throw error
      return write({ ...params, reason: plain }, limit)
    })
  }
}
