import type { Answer } from '../core/answer.js'
import { isOncekeyError, isStoreTrouble, OncekeyError } from '../core/errors.js'
import type { ReceivedRequest } from '../core/fingerprint/fingerprint.js'
import { type HeaderSource, type KeySource, readHeader, readKey } from './key-source.js'
import type { HttpSettings } from './options.js'
import type { KeyReading } from './parse-key.js'
import { problemReply } from './replies.js'
import { type HttpBody, type HttpRequest, mediaTypeOf, rereadable } from './request.js'

export type Received = Exclude<HttpBody, { failed: unknown }>

/** The request, with a body that can be read twice if the key is in it. */
export function readable<Native>({ key }: HttpSettings<Native>, request: HttpRequest<Native>): HttpRequest<Native> {
  return typeof key === 'object' && key.kind === 'field' ? rereadable(request) : request
}

interface Refused {
  readonly refusal: Answer
}

/** A request with a key (or without, if that is allowed), or the answer that refuses it. */
export type Admitted = { readonly key: string | undefined } | Refused

/** Synchronous for a key in a header, the usual case: saves a promise. */
export function admitKey<Native>(settings: HttpSettings<Native>, request: HttpRequest<Native>): Admitted | Promise<Admitted> {
  const { key } = settings
  return typeof key === 'object' && key.kind === 'header'
    ? admittedBy(settings, readHeader(key, request))
    : admitLater(settings, key, request)
}

async function admitLater<Native>(
  settings: HttpSettings<Native>,
  source: Exclude<KeySource<Native>, HeaderSource>,
  request: HttpRequest<Native>,
): Promise<Admitted> {
  if (typeof source === 'object') {
    // The key is in the body: body errors come first.
    const received = admitBody(settings, await request.body())
    if ('refusal' in received) return received
  }
  return admittedBy(settings, await readKey(source, request))
}

function admittedBy<Native>(settings: HttpSettings<Native>, reading: KeyReading): Admitted {
  if ('key' in reading) return reading
  if ('invalid' in reading) return { refusal: problemReply(settings, { code: 'key_invalid', detail: reading.invalid }) }
  return settings.required ? { refusal: problemReply(settings, { code: 'key_missing' }) } : { key: undefined }
}

/** A body that can be compared, or the answer that refuses the request. */
export function admitBody<Native>(settings: HttpSettings<Native>, body: HttpBody): Received | Refused {
  if ('failed' in body) {
    return { refusal: problemReply(settings, { code: body.failed === 'too_large' ? 'body_too_large' : 'body_incomplete' }) }
  }
  if ('parsed' in body && settings.fingerprint === 'raw') {
    throw new OncekeyError(
      'raw_body_gone',
      'A body parser ran before the idempotency layer and threw the bytes of the request away. Mount the layer before the parser, ' +
        "let the parser keep them as `rawBody`, or choose fingerprint: 'parsed' and read what that cannot tell apart.",
    )
  }
  // Otherwise different bodies would be equal, and an operation would get no input.
  if ('parsed' in body && body.parsed === undefined) {
    throw new OncekeyError(
      'raw_body_gone',
      'The body was read before the idempotency layer and not kept, so there is nothing to compare. Mount the layer in front of that ' +
        'reader, or let it keep the bytes as `rawBody`.',
    )
  }
  if ('parsed' in body && isTooDeep(body.parsed)) {
    const issues = [{ message: 'The body is nested too deep.' }]
    return { refusal: problemReply(settings, { code: 'input_invalid', members: { issues } }) }
  }
  return body
}

/** A parser may go deeper than `JSON.stringify`. Any other error is the service's, and is thrown where the body is compared. */
function isTooDeep(parsed: unknown): boolean {
  try {
    JSON.stringify(parsed)
    return false
  } catch (error) {
    return error instanceof RangeError
  }
}

export function fingerprintOf(request: HttpRequest, body: Received): ReceivedRequest {
  const { method, path, query } = request
  const mediaType = mediaTypeOf(request)
  if ('parsed' in body) return { method, path, query, mediaType, value: body.parsed }
  if (body.arrived) return { method, path, query, mediaType, arrived: body.arrived }
  return { method, path, query, mediaType, body: body.bytes }
}

/** `Retry-After` for errors without a lease. */
const soonSeconds = 1

/** The answer to an error that is no fault of the service's code; undefined for all others. */
export function refusalOf<Native>(settings: HttpSettings<Native>, error: unknown): Answer | undefined {
  if (isOncekeyError(error, 'key_invalid')) return problemReply(settings, { code: 'key_invalid', detail: error.message })
  if (isOncekeyError(error, 'lease_lost') || isOncekeyError(error, 'max_run_exceeded')) {
    return problemReply(settings, { code: 'interrupted', retryAfterSeconds: soonSeconds })
  }
  if (isOncekeyError(error, 'shutting_down')) return problemReply(settings, { code: 'shutting_down', retryAfterSeconds: soonSeconds })
  // Stored by another process with a secret that this one does not have yet.
  if (isStoreTrouble(error) || isOncekeyError(error, 'fingerprint_incomparable')) {
    return problemReply(settings, { code: 'store_unavailable', retryAfterSeconds: soonSeconds })
  }
  return undefined
}
