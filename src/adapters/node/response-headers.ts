import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Answer, HeaderPair } from '../../core/answer.js'
import { unlessNamed } from '../../http/request-ids.js'
import { forgetStatusMessage, isGone } from './http-versions.js'

/** What `writeHead` takes: an object, a flat list, or a list of pairs. */
export type HeadersArgument = OutgoingHttpHeaders | readonly OutgoingHttpHeader[] | undefined

/** Merges what `writeHead` was given into what was set before, as Node does: the later one wins, and a list may repeat a name. */
export function mergeHeaders(response: ServerResponse, headers: HeadersArgument): void {
  if (!headers) return
  if (!Array.isArray(headers)) {
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) response.setHeader(name, value)
    return
  }
  const pairs = Array.isArray(headers[0]) ? (headers as unknown as HeaderPair[]) : pairsOf(headers as string[])
  for (const [name] of pairs) response.removeHeader(name)
  for (const [name, value] of pairs) response.appendHeader(name, value)
}

function pairsOf(flat: readonly string[]): HeaderPair[] {
  return flat.flatMap((name, index): HeaderPair[] => (index % 2 === 0 ? [[name, flat[index + 1] as string]] : []))
}

/** The headers that are not as they were in `baseline`, or that the handler `set` to the same; one pair for each line. */
export function changedHeaders(response: ServerResponse, baseline: OutgoingHttpHeaders, set?: ReadonlySet<string>): HeaderPair[] {
  return changedPairs(response.getHeaders(), baseline, set)
}

/** The same for headers that a framework has kept to itself so far. */
export function changedPairs(headers: OutgoingHttpHeaders, baseline: OutgoingHttpHeaders, set?: ReadonlySet<string>): HeaderPair[] {
  const changed: HeaderPair[] = []
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    // Replays have the request's id, wherever it was set.
    const same = name !== 'request-id' && !set?.has(name) && String(baseline[name]) === String(value)
    // HTTP/2 keeps the status among them.
    if (value === undefined || same || name.startsWith(':')) continue
    if (Array.isArray(value)) for (const line of value) changed.push([name, String(line)])
    else changed.push([name, String(value)])
  }
  return changed
}

/** Puts an answer on the wire. Headers that were there before stay, unless the answer has its own. */
export function sendAnswer(response: ServerResponse, answer: Answer, baseline?: OutgoingHttpHeaders): void {
  if (isGone(response)) return
  setHead(response, answer, baseline)
  // One piece in one call: then Node says how long it is.
  response.end(answer.body)
}

/** With `baseline`, what others have set since is taken away. */
export function setHead(response: ServerResponse, { status, headers: all }: Answer, baseline?: OutgoingHttpHeaders): void {
  if (baseline) for (const name of response.getHeaderNames()) response.removeHeader(name)
  mergeHeaders(response, baseline)
  const headers = unlessNamed(all, response.hasHeader('request-id'))
  response.statusCode = status
  // The one that is there belongs to another status.
  forgetStatusMessage(response)
  for (const [name] of headers) response.removeHeader(name)
  for (const [name, value] of headers) response.appendHeader(name, value)
}
