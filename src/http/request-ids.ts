import type { Answer } from '../core/answer.js'

/** The Request-Id. Replays name that of the first request. */
export const requestIdOf = (uuid: string) => `req_${uuid.replaceAll('-', '')}`

/** Every answer of a profile with request ids has one; the service's own takes precedence. */
export function withRequestId(answer: Answer, uuid: string): Answer {
  if (answer.headers.some(([name]) => name.toLowerCase() === 'request-id')) return answer
  return { ...answer, headers: [...answer.headers, ['request-id', requestIdOf(uuid)]] }
}

/** An id that the service set before us takes precedence. */
export function unlessNamed(headers: Answer['headers'], isNamed: boolean): Answer['headers'] {
  return isNamed ? headers.filter(([name]) => name.toLowerCase() !== 'request-id') : headers
}
