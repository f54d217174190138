/** `docs/guide/client.md` explains each code; a test fails when one is missing there. */
export const clientErrorCodes = [
  'option_invalid',
  'body_not_replayable',
  'key_not_sendable',
  'not_kept',
  'no_answer',
  'redirected',
  'too_old',
  'other_owner',
] as const

export type ClientErrorCode = (typeof clientErrorCodes)[number]

/** Match `code`, never the class: two copies of the package have two classes. */
export class IdempotentFetchError extends Error {
  override readonly name = 'IdempotentFetchError'
  readonly code: ClientErrorCode
  /** The key of the request, where there was one already. */
  readonly key: string | undefined

  constructor(code: ClientErrorCode, message: string, { key, cause }: { key?: string; cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.key = key
  }
}
