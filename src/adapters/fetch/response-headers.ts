import type { Answer, HeaderPair } from '../../core/answer.js'
import { unlessNamed } from '../../http/request-ids.js'

/** The headers that are not as they were in `baseline`. */
export function changedHeaders(headers: Headers, baseline: Headers): HeaderPair[] {
  // The id of a request is told again at its replays, whoever set it.
  return [...headers].filter(([name, value]) => name === 'request-id' || baseline.get(name) !== value)
}

/** The headers of a response that was read whole, with these where it has none of that name. */
export function deliveredHeaders(headers: Headers, extra: Answer['headers']): Headers {
  const merged = new Headers(headers)
  // It was a stream and is one piece now: with both a length and this, clients refuse it.
  merged.delete('transfer-encoding')
  for (const [name, value] of extra) if (!merged.has(name)) merged.set(name, value)
  return merged
}

/** Those of an answer, on top of the headers that are there in any case. */
export function answerHeaders(all: Answer['headers'], baseline: Headers): Headers {
  const merged = new Headers(baseline)
  const headers = unlessNamed(all, merged.has('request-id'))
  for (const [name] of headers) merged.delete(name)
  for (const [name, value] of headers) merged.append(name, value)
  return merged
}
