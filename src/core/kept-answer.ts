import { type Answer, checkAnswer, type HeaderPair, isHeaderName, withinCap } from './answer.js'
import { OncekeyError } from './errors.js'
import { sealedHeader } from './sealing.js'

export interface KeepOptions {
  readonly maxAnswerBytes: number
  readonly neverStore?: readonly string[] | undefined
  readonly redact?: ((answer: Answer) => Answer) | undefined
}

/** Headers about one connection, one moment or one delivery: in a replay they would be false. */
export const neverReplayed: readonly string[] = [
  // Hop by hop (RFC 9110 section 7.6.1), and those that older software still sends.
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  // Computed when sending.
  'content-length',
  'date',
  'age',
  // A session must not be issued twice.
  'set-cookie',
  'set-cookie2',
  // About one request. A plain Request-Id is kept under another name: see below.
  'x-request-id',
  'x-correlation-id',
  'x-amzn-requestid',
  'x-amzn-trace-id',
  'cf-ray',
  'traceparent',
  'tracestate',
  'server-timing',
  // Our own: the replay sets the first; the second marks sealed answers.
  'idempotent-replayed',
  sealedHeader,
]

/** A replay has its own Request-Id; this header names the request that did the work. */
const originalRequest = 'original-request'
const requestId = 'request-id'

/** The highest size that every store can hold. */
const mostOmittedBytes = 2 ** 31 - 1

/**
 * Makes the function that returns the answer to store. It never throws: the work is done by now, and a secret must not be stored because
 * `redact` fails. Errors of `redact` go to `redactionFailed`.
 */
export function answerKeeper({ maxAnswerBytes, neverStore = [], redact }: KeepOptions) {
  const unwanted = new Set([...neverReplayed, ...checkNames(neverStore)])
  if (unwanted.has(originalRequest)) unwanted.add(requestId)
  if (redact !== undefined && typeof redact !== 'function') {
    throw new OncekeyError('option_invalid', 'redact must be a function that takes an answer and returns the one to store.')
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

  /** Copies the pairs: the caller may change its own before the answer is stored. */
  function headersWithout(headers: readonly HeaderPair[]): HeaderPair[] {
    // Most answers have no special header. They are copied without spare array capacity.
    if (!headers.some(isSpecial)) return headers.map(([name, value]) => [name, value])
    const names = headers.map(([name]) => name.toLowerCase())
    const nominated = names.includes('connection') ? nominatedBy(headers) : undefined
    const hasId = names.includes(requestId)
    const kept: HeaderPair[] = []
    for (const [index, [given, value]] of headers.entries()) {
      const name = names[index] as string
      if (unwanted.has(name) || nominated?.has(name)) continue
      // Two of them would be ambiguous; readers look for this spelling.
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
    throw new OncekeyError('option_invalid', `neverStore must be an array of header names, such as ['x-session-token'].`)
  }
  return names.map((name) => name.toLowerCase())
}

/** Headers that a Connection header makes hop-by-hop. */
function nominatedBy(headers: readonly HeaderPair[]): ReadonlySet<string> {
  const lists = headers.filter(([name]) => name.toLowerCase() === 'connection').map(([, value]) => value)
  return new Set(lists.flatMap((list) => list.split(',').map((name) => name.trim().toLowerCase())))
}

/** The hook gets a copy: it cannot change the first caller's answer. */
function redacted(answer: Answer, redact: (answer: Answer) => Answer): Answer {
  const result: unknown = redact({ ...answer, body: new Uint8Array(answer.body) })
  if (isThenable(result)) {
    // Not awaited, so a rejection must not end the process.
    result.then(undefined, () => {})
    throw new OncekeyError('answer_invalid', 'redact returned a promise: the answer is stored at once, so make it a plain function.')
  }
  const { status, headers, body, omittedBytes } = checkAnswer(result as Answer)
  // A body that was omitted cannot have been replaced.
  if (answer.omittedBytes !== undefined) return { status, headers, body: new Uint8Array(), omittedBytes: answer.omittedBytes }
  return { status, headers, body, ...(omittedBytes === undefined ? {} : { omittedBytes }) }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}
