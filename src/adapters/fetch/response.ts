import type { Answer } from '../../core/answer.js'
import { OncekeyError } from '../../core/errors.js'
import { type FlowingResponse, flow } from './flowing-response.js'
import { joined, piecesOf } from './pieces.js'
import { answerHeaders, changedHeaders, deliveredHeaders } from './response-headers.js'

/** A handler's response, read up to the cap. */
export interface CapturedResponse {
  /** What the handler answered. If the body flows, only once it has come to its end. */
  readonly answer: Promise<Answer>
  /** The response as it goes out, with these headers where it has none of that name. */
  deliver(extra: Answer['headers']): Response
  /** There if the body is too large to be kept: it flows already, but for its last piece. */
  readonly flow?: FlowingResponse
}

export interface CaptureOptions {
  /** Headers that were there before the handler, and will be at a replay. */
  readonly baseline: Headers
  readonly maxBytes: number
  /** Aborts when nobody may hear the answer any more: the rest of it is not read. */
  readonly lost: AbortSignal
  /** Aborts when the client has gone: its answer is read to the end all the same. */
  readonly clientGone: AbortSignal | undefined
}

export async function captureResponse(given: Response | undefined, options: CaptureOptions): Promise<CapturedResponse> {
  const { baseline, maxBytes, lost, clientGone } = options
  const response = usable(given)
  const { status, statusText, headers } = response
  const head = { status, headers: changedHeaders(headers, baseline) }
  const rest = piecesOf(response.body)
  const drop = () => rest.drop(lost.reason)
  if (lost.aborted) drop()
  lost.addEventListener('abort', drop, { once: true })

  const pieces: Uint8Array<ArrayBuffer>[] = []
  let size = 0
  for (let piece = await rest.next(); piece; piece = await rest.next()) {
    pieces.push(piece)
    size += piece.length
    if (size > maxBytes) {
      const flowing = flow(response, { pieces, rest, clientGone })
      const answer = flowing.size.then((omittedBytes) => ({ ...head, body: new Uint8Array(), omittedBytes }))
      return { answer, deliver: () => flowing.response, flow: flowing }
    }
  }
  const body = joined(pieces)
  return {
    answer: Promise.resolve({ ...head, body }),
    deliver: (extra) => new Response(bodyInit(body), { status, statusText, headers: deliveredHeaders(headers, extra) }),
  }
}

/** The response for an answer of ours, on top of the headers that are there in any case. */
export function responseOf({ status, headers, body }: Answer, baseline: Headers): Response {
  return new Response(bodyInit(body), { status, headers: answerHeaders(headers, baseline) })
}

/** Some statuses may have no body, not even an empty one; and servers say of what type an empty one is. */
const bodyInit = (body: Uint8Array) => (body.length > 0 ? (body as Uint8Array<ArrayBuffer>) : null)

/** A body that was read already would be stored as an empty one. */
function usable(response: Response | undefined): Response {
  if (typeof response?.status !== 'number' || typeof response.headers?.get !== 'function') {
    throw new OncekeyError('answer_invalid', 'The handler returned no Response, so there is nothing to store: return one on every path.')
  }
  if (response.bodyUsed || response.body?.locked) {
    throw new OncekeyError(
      'answer_invalid',
      'The handler returned a Response whose body somebody reads, or has read already: return a fresh one, or read a clone of it.',
    )
  }
  return response
}
