import type { Answer } from '../core/answer.js'

/** The id of the request that is answered; by the first one's the answer is known at its replays. */
export const requestIdOf = (uuid: string) => `req_${uuid.replaceAll('-', '')}`

/** Every answer of a profile with request ids has one; a service's own goes first. */
export function withRequestId(answer: Answer, uuid: string): Answer {
  if (answer.headers.some(([name]) => name.toLowerCase() === 'request-id')) return answer
  return { ...answer, headers: [...answer.headers, ['request-id', requestIdOf(uuid)]] }
}

/** An id that a service gave the request before us is the true one. */
export function unlessNamed(headers: Answer['headers'], isNamed: boolean): Answer['headers'] {
  return isNamed ? headers.filter(([name]) => name.toLowerCase() !== 'request-id') : headers
}
