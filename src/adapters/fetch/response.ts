import type { Answer, HeaderPair } from '../../core/answer.js'
import { OncekeyError } from '../../core/errors.js'
import { unlessNamed } from '../../http/request-ids.js'
import { type FlowingResponse, flow } from './flow.js'
import { Pieces } from './pieces.js'

/** A handler's response, read up to the cap. */
export interface CapturedResponse {
  /** If the body flows, only once it has come to its end. */
  readonly answer: Answer | Promise<Answer>
  /** The response as it goes out, with these headers where it has none of that name. */
  deliver(extra: Answer['headers']): Response
  /** Set for a body that is too large to be kept: it flows already, except for its last piece. */
  readonly flow?: FlowingResponse
}

export interface CaptureOptions {
  /** Headers that were there before the handler, and will be at a replay. */
  readonly baseline: Headers | undefined
  readonly maxBytes: number
  /** Calls back when the answer can no longer be stored: the rest of it is not read. */
  onLost(listener: (reason: unknown) => void): void
  /** Aborts when the client has gone: its answer is read to the end all the same. Making one takes servers a few microseconds. */
  clientGone(): AbortSignal | undefined
}

export async function captureResponse(given: Response | undefined, options: CaptureOptions): Promise<CapturedResponse> {
  const { baseline, maxBytes } = options
  const response = usable(given)
  const { status, statusText, headers } = response
  const answer = { status, headers: changedHeaders(headers, baseline) }
  const pieces = new Pieces(response.body)
  options.onLost((reason) => pieces.drop(reason))
  const { blocks, over } = await pieces.gather(maxBytes)
  const body = blocks.bytes()
  if (over) {
    const flowing = flow(response, { first: body, last: over, pieces, clientGone: options.clientGone() })
    const whole = flowing.size.then((omittedBytes) => ({ ...answer, body: new Uint8Array(), omittedBytes }))
    return { answer: whole, deliver: () => flowing.response, flow: flowing }
  }
  return {
    answer: { ...answer, body },
    deliver(extra) {
      const sent = new Headers(headers)
      // It was a stream and is one piece now: with both a length and this, clients refuse it.
      sent.delete('transfer-encoding')
      for (const [name, value] of extra) if (!sent.has(name)) sent.set(name, value)
      return new Response(bodyInit(body), { status, statusText, headers: sent })
    },
  }
}

/** The response for an answer of ours, on top of the headers that are there in any case. */
export function responseOf({ status, headers: all, body }: Answer, baseline: Headers | undefined): Response {
  const headers = new Headers(baseline)
  const own = unlessNamed(all, headers.has('request-id'))
  if (baseline) for (const [name] of own) headers.delete(name)
  for (const [name, value] of own) headers.append(name, value)
  return new Response(bodyInit(body), { status, headers })
}

/** Some statuses may have no body, not even an empty one; and servers say of what type an empty one is. */
const bodyInit = (body: Uint8Array) => (body.length > 0 ? (body as Uint8Array<ArrayBuffer>) : null)

/** They describe the body, so they are replayed with it, wherever they were set. The id of a request is replayed too. */
const ofTheAnswer = /^(content-(type|language|encoding|location|disposition)|etag|last-modified|request-id)$/

/** The headers that are not as they were in `baseline`. */
function changedHeaders(headers: Headers, baseline: Headers | undefined): HeaderPair[] {
  const all = [...headers]
  return baseline ? all.filter(([name, value]) => ofTheAnswer.test(name) || baseline.get(name) !== value) : all
}

/** A body that was read already would be stored as an empty one. */
function usable(response: Response | undefined): Response {
  if (typeof response?.status !== 'number' || typeof response.headers?.get !== 'function') {
    throw new OncekeyError('answer_invalid', 'The handler returned no Response, so there is nothing to store: return one on every path.')
  }
  if (response.bodyUsed || response.body?.locked) {
    throw new OncekeyError(
      'answer_invalid',
      'The handler returned a Response whose body is being read, or was read already: return a fresh one, or read a clone of it.',
    )
  }
  return response
}
