import type { Answer } from '../core/answer.js'
import { isOncekeyError, isStoreTrouble, OncekeyError } from '../core/errors.js'
import type { ReceivedRequest } from '../core/fingerprint/fingerprint.js'
import { type HeaderSource, type KeySource, readHeader, readKey } from './key-source.js'
import type { HttpSettings } from './options.js'
import type { KeyReading } from './parse-key.js'
import { problemReply } from './replies.js'
import { type HttpBody, type HttpRequest, mediaTypeOf, rereadable } from './request.js'

export type Received = Exclude<HttpBody, { failed: unknown }>

/** The request, with a body that may be asked for again where the key is read from it. */
export function readable<Native>({ key }: HttpSettings<Native>, request: HttpRequest<Native>): HttpRequest<Native> {
  return typeof key === 'object' && key.kind === 'field' ? rereadable(request) : request
}

interface Refused {
  readonly refusal: Answer
}

/** A request with a key (or without one, where that is allowed), or the answer that it gets instead. */
export type Admitted = { readonly key: string | undefined } | Refused

/** At once for a key in a header, where most are: a promise for each would be for nothing. */
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
    // The key is in the body: what is wrong with that comes first.
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

/** A body that can be compared, or the answer that the request gets instead. */
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
  // Two bodies would be taken for one, and an operation would run on nothing.
  if ('parsed' in body && body.parsed === undefined) {
    throw new OncekeyError(
      'raw_body_gone',
      'Somebody read the body of the request before the idempotency layer and left nothing of it, so there is nothing to compare. Mount ' +
        'the layer in front of them, or let them keep the bytes as `rawBody`.',
    )
  }
  if ('parsed' in body && isTooDeep(body.parsed)) {
    const issues = [{ message: 'The body is nested too deep.' }]
    return { refusal: problemReply(settings, { code: 'input_invalid', members: { issues } }) }
  }
  return body
}

/** A parser may go deeper than the platform can write. Any other error is the service's, and is thrown where the body is compared. */
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

/** How soon a client may ask again after trouble that is nobody's lease. */
const soonSeconds = 1

/** The answer to an error of ours that is no fault of the service's code; undefined for all others. */
export function refusalOf<Native>(settings: HttpSettings<Native>, error: unknown): Answer | undefined {
  if (isOncekeyError(error, 'key_invalid')) return problemReply(settings, { code: 'key_invalid', detail: error.message })
  if (isOncekeyError(error, 'lease_lost') || isOncekeyError(error, 'max_run_exceeded')) {
    return problemReply(settings, { code: 'interrupted', retryAfterSeconds: soonSeconds })
  }
  if (isOncekeyError(error, 'shutting_down')) return problemReply(settings, { code: 'shutting_down', retryAfterSeconds: soonSeconds })
  // Another process has stored it with a secret that this one is about to be given.
  if (isStoreTrouble(error) || isOncekeyError(error, 'fingerprint_incomparable')) {
    return problemReply(settings, { code: 'store_unavailable', retryAfterSeconds: soonSeconds })
  }
  return undefined
}
