import { type Answer, checkAnswer, type HeaderPair, isHeaderName, withinCap } from './answer.js'
import { OncekeyError } from './errors.js'
import { sealedHeader } from './sealing.js'

export interface KeepOptions {
  readonly maxAnswerBytes: number
  readonly neverStore?: readonly string[] | undefined
  readonly redact?: ((answer: Answer) => Answer) | undefined
}

/** Headers that are about one connection, one moment or one delivery: in a replay they would be false, or somebody else's. */
export const neverReplayed: readonly string[] = [
  // Hop by hop (RFC 9110 section 7.6.1), with those that older software still sends.
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  // Made anew from the bytes, or from the moment of sending.
  'content-length',
  'date',
  'age',
  // A session must not be handed out twice.
  'set-cookie',
  'set-cookie2',
  // The name or the course of one request. A plain Request-Id is kept under another name: see below.
  'x-request-id',
  'x-correlation-id',
  'x-amzn-requestid',
  'x-amzn-trace-id',
  'cf-ray',
  'traceparent',
  'tracestate',
  'server-timing',
  // Ours: whether this is a replay is for the replay to say, and the other marks what is encrypted.
  'idempotent-replayed',
  sealedHeader,
]

/** A replay has an id of its own; under this name it can tell that of the request which did the work. */
const originalRequest = 'original-request'
const requestId = 'request-id'

/** How far every store can count. */
const mostOmittedBytes = 2 ** 31 - 1

/**
 * Makes the function that says what is kept of an answer, for as long as the retention and for every replay. It never throws: the work is
 * done by now, and a secret must not be kept because of a mistake in `redact`. Such a mistake goes to `redactionFailed`.
 */
export function answerKeeper({ maxAnswerBytes, neverStore = [], redact }: KeepOptions) {
  const unwanted = new Set([...neverReplayed, ...checkNames(neverStore)])
  if (unwanted.has(originalRequest)) unwanted.add(requestId)
  if (redact !== undefined && typeof redact !== 'function') {
    throw new OncekeyError('option_invalid', 'redact is a function that takes an answer and returns the one to keep.')
  }

  return function keep(answer: Answer, redactionFailed: (error: unknown) => void = () => {}): Answer {
    const kept = whatIsKept(answer, redactionFailed)
    return (kept.omittedBytes ?? 0) > mostOmittedBytes ? { ...kept, omittedBytes: mostOmittedBytes } : kept
  }

  function whatIsKept(answer: Answer, redactionFailed: (error: unknown) => void): Answer {
    const replayable = withoutUnwanted(answer)
    if (!redact) return withinCap(replayable, maxAnswerBytes)
    try {
      return withinCap(withoutUnwanted(redacted(replayable, redact)), maxAnswerBytes)
    } catch (error) {
      redactionFailed(error)
      return { status: answer.status, headers: [], body: new Uint8Array(), omittedBytes: answer.omittedBytes ?? answer.body.length }
    }
  }

  function withoutUnwanted(answer: Answer): Answer {
    const kept = headersWithout(answer.headers)
    const { status, body, omittedBytes } = answer
    return omittedBytes === undefined ? { status, headers: kept, body } : { status, headers: kept, body, omittedBytes }
  }

  /** Pairs of our own: the caller may change theirs before the answer is written. */
  function headersWithout(headers: readonly HeaderPair[]): HeaderPair[] {
    // Most answers have nothing of the kind. Those are copied as they are, into a list that has no room to grow.
    if (!headers.some(isSpecial)) return headers.map(([name, value]) => [name, value])
    const names = headers.map(([name]) => name.toLowerCase())
    const nominated = names.includes('connection') ? nominatedBy(headers) : undefined
    const hasId = names.includes(requestId)
    const kept: HeaderPair[] = []
    for (const [index, [given, value]] of headers.entries()) {
      const name = names[index] as string
      if (unwanted.has(name) || nominated?.has(name)) continue
      // Two of them would not say which, and readers look for this spelling.
      if (name === originalRequest && hasId) continue
      kept.push([name === requestId || name === originalRequest ? originalRequest : given, value])
    }
    return kept
  }

  function isSpecial([given]: HeaderPair): boolean {
    const name = given.toLowerCase()
    return unwanted.has(name) || name === requestId || name === originalRequest
  }
}

function checkNames(names: readonly string[]): string[] {
  if (!Array.isArray(names) || !names.every(isHeaderName)) {
    throw new OncekeyError('option_invalid', `neverStore is a list of header names, such as ['x-session-token'].`)
  }
  return names.map((name) => name.toLowerCase())
}

/** The headers that a Connection header makes hop-by-hop too. */
function nominatedBy(headers: readonly HeaderPair[]): ReadonlySet<string> {
  const lists = headers.filter(([name]) => name.toLowerCase() === 'connection').map(([, value]) => value)
  return new Set(lists.flatMap((list) => list.split(',').map((name) => name.trim().toLowerCase())))
}

/** The hook gets a copy: whatever it does to it, the first caller's answer stays as it is. */
function redacted(answer: Answer, redact: (answer: Answer) => Answer): Answer {
  const result: unknown = redact({ ...answer, body: new Uint8Array(answer.body) })
  if (isThenable(result)) {
    // Nobody waits for it, so what it rejects with must not end the process.
    result.then(undefined, () => {})
    throw new OncekeyError('answer_invalid', 'redact returned a promise: the answer is stored at once, so make it a plain function.')
  }
  const { status, headers, body, omittedBytes } = checkAnswer(result as Answer)
  // A body that was not there cannot have been replaced.
  if (answer.omittedBytes !== undefined) return { status, headers, body: new Uint8Array(), omittedBytes: answer.omittedBytes }
  return { status, headers, body, ...(omittedBytes === undefined ? {} : { omittedBytes }) }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
