import { isHeaderName } from '../core/answer.js'
import { isOncekeyError, OncekeyError } from '../core/errors.js'
import type { Json } from '../core/json.js'
import { isJson } from '../core/media-type.js'
import { type CallOptions, call } from './call.js'
import { goesOutOnce, idempotencyKey, keyedFetch, requestOf } from './keyed-fetch.js'
import type { Ledger } from './ledger.js'

/** What is kept of a response. */
export interface Fetched<Body = unknown> {
  readonly status: number
  /** The JSON of a body that is called so, else its text, or null if there is none. */
  readonly body: Body
}

export interface FetchOptions<T = Fetched> extends Omit<CallOptions<T>, 'classify'> {
  /** The header in which the other side looks for the key. Default `Idempotency-Key`. */
  header?: string
  /**
   * Statuses besides 2xx that are a result: a decline that you answer yourself, such as 402. All others are errors, so that no code goes on
   * with a charge that is none. A 400 or 422 may also say that the key was used with another body: tell the two apart in `parse`, and throw.
   * Default: none.
   */
  accept?: readonly number[]
  /** Makes the result of a response that is one. Default: `{ status, body }`. */
  parse?: (response: Response) => Promise<T> | T
}

/** A call that is one HTTP request, with the derived key in its header. */
export async function fetchCall<Tx, T>(
  ledger: Ledger<Tx>,
  name: string,
  url: string | URL,
  init: RequestInit = {},
  { header = idempotencyKey, accept = [], parse = fetched as () => Promise<T>, ...options }: FetchOptions<T> = {},
): Promise<Json<T>> {
  if (!isHeaderName(header)) throw new OncekeyError('option_invalid', `header is ${String(header)}: it is the name of a header.`)
  if (!Array.isArray(accept)) throw new OncekeyError('option_invalid', `accept is ${String(accept)}: it is a list of statuses.`)
  // Now: what cannot be sent at all is no call that anybody has to wonder about.
  const { shown } = requestOf(url, init, header)
  let attempt = 1
  let status: number | undefined
  let isSentOnce = false

  async function make(made: { key: string; signal: AbortSignal; attempt: number }): Promise<T> {
    attempt = made.attempt
    isSentOnce = goesOutOnce(init)
    const response = await keyedFetch({ name, header, ...made })(url, init)
    if (response.ok || accept.includes(response.status)) return parse(response)
    status = response.status
    await response.body?.cancel()
    throw new OncekeyError('call_failed', `${shown} was answered ${status}.`)
  }

  return call<Tx, T>(ledger, name, make, {
    ...options,
    classify: (error) =>
      status !== undefined && isOncekeyError(error, 'call_failed') ? meaningOf(status, attempt) : meaningOfFailure(error, isSentOnce),
  })
}

/**
 * What a status says of a request. A later attempt believes a 400 or 422 less: that is also how the other side says that its key was used
 * with another body, and then an earlier attempt took effect.
 */
export function meaningOf(status: number, attempt: number): 'refused' | 'retry' | 'unknown' {
  if (notDone.has(status)) return 'retry'
  if (status < 400 || status >= 500 || perhapsDone.has(status)) return 'unknown'
  return attempt > 1 && alsoAboutKeys.has(status) ? 'unknown' : 'refused'
}

/** Turned away before anything was done, for a reason that passes or can be fixed: credentials, an address, too many requests. */
const notDone: ReadonlySet<number> = new Set([401, 403, 404, 405, 407, 421, 423, 425, 429])

/** It took too long, or another request with this key is under way. */
const perhapsDone: ReadonlySet<number> = new Set([408, 409])

const alsoAboutKeys: ReadonlySet<number> = new Set([400, 422])

/** Without a connection nothing was sent, unless by an earlier attempt. Any other failure may have come after the effect. */
function meaningOfFailure(error: unknown, isSentOnce: boolean): 'retry' | 'unknown' {
  if (!isSentOnce) return 'unknown'
  const { code } = ((error as { cause?: unknown } | null)?.cause ?? {}) as { code?: unknown }
  return typeof code === 'string' && neverConnected.has(code) ? 'retry' : 'unknown'
}

const neverConnected: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])

async function fetched(response: Response): Promise<Fetched> {
  const { status, headers } = response
  const text = await response.text()
  if (text === '') return { status, body: null }
  return { status, body: isJson(headers.get('content-type') ?? '') ? JSON.parse(text) : text }
}
