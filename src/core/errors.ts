import { safely } from './thrown-text.js'

/**
 * Every error this package throws, with its HTTP status.
 *
 * Match `code`, never the class: two copies of the package in one process have two classes.
 * `docs/reference/errors.md` explains each code; a test fails when one is missing there.
 */
export const errorStatuses = {
  key_invalid: 400,
  tenant_invalid: 500,
  scope_invalid: 500,
  duration_invalid: 500,
  option_invalid: 500,
  fingerprint_input_invalid: 500,
  fingerprint_incomparable: 503,
  answer_invalid: 500,
  answer_body_omitted: 500,
  answer_unreadable: 500,
  encryption_key_missing: 500,
  input_invalid: 400,
  raw_body_gone: 500,
  layers_nested: 500,
  result_not_json: 500,
  lease_lost: 503,
  max_run_exceeded: 503,
  shutting_down: 503,
  key_parked: 500,
  attempts_exhausted: 500,
  steps_overlap: 500,
  step_name_invalid: 500,
  step_name_repeated: 500,
  step_unknown: 500,
  stage_outside_phase: 500,
  transaction_ended: 500,
  call_timeout: 503,
  call_refused: 500,
  call_failed: 503,
  operation_name_taken: 500,
  steps_unsupported: 500,
  upkeep_unsupported: 500,
  outbox_unsupported: 500,
  delivery_timeout: 503,
  resolve_conflict: 409,
  reconcile_key_invalid: 500,
  reconcile_key_repeated: 500,
  reconcile_unsorted: 500,
  turns_unsupported: 500,
  turn_lost: 503,
  key_locked: 503,
  store_unavailable: 503,
  store_timeout: 503,
  store_conflict: 503,
  store_read_only: 503,
  store_full: 503,
  store_forbidden: 500,
  store_failed: 500,
  store_key_collision: 500,
  text_unsupported: 500,
  session_setting_unsupported: 500,
  schema_missing: 500,
  schema_outdated: 500,
  schema_too_new: 500,
  migration_out_of_order: 500,
  migration_blocked: 503,
} as const

export type ErrorCode = keyof typeof errorStatuses

export class OncekeyError extends Error {
  override readonly name = 'OncekeyError'
  readonly code: ErrorCode
  /** The HTTP status, if the error reaches a client. */
  readonly status: number
  /** True if the failed call was never sent to the store. */
  declare readonly neverSent?: boolean

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown; neverSent?: boolean }) {
    super(message, options)
    if (options?.neverSent) Object.defineProperty(this, 'neverSent', { value: true })
    this.code = code
    this.status = errorStatuses[code]
  }
}

/** `neverSent`: the call did not reach the store, so nothing has to be undone. */
export function storeTimeout(options: { readonly neverSent?: boolean } = {}): OncekeyError {
  const message = 'The store did not answer in time: check its load and its locks, or raise storeTimeout.'
  return new OncekeyError('store_timeout', message, options)
}

/** The store is down, full, read-only or slow: retrying may help. */
export function isStoreTrouble(error: unknown): error is OncekeyError {
  return isOncekeyError(error) && safely(() => error.status === 503 && error.code.startsWith('store_'), false)
}

/** True for an error of this package, from any copy of it; with `code`, only for that one. */
export function isOncekeyError(error: unknown, code?: ErrorCode): error is OncekeyError {
  return safely(() => {
    if (!(error instanceof Error) || error.name !== 'OncekeyError') return false
    return code === undefined || (error as OncekeyError).code === code
  }, false)
}
