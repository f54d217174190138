import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Http2ServerRequest, Http2ServerResponse } from 'node:http2'

/** Node's HTTP/2 has requests and responses that look like those of HTTP/1, but for a few things that matter here. */
function streamOf(message: IncomingMessage | ServerResponse): Http2ServerRequest['stream'] | undefined {
  return (message as unknown as Partial<Http2ServerRequest | Http2ServerResponse>).stream as Http2ServerRequest['stream'] | undefined
}

export const isHttp2 = (message: IncomingMessage | ServerResponse) => streamOf(message) !== undefined

/** By RFC 9110 a request has a body if a header says how long it is, or that it comes in pieces. HTTP/2 says in a frame where it ends. */
export function hasBody(request: IncomingMessage): boolean {
  const stream = streamOf(request)
  if (stream && !stream.endAfterHeaders) return true
  const { 'transfer-encoding': encoding, 'content-length': length } = request.headers
  // Some serverless adapters make numbers of it.
  return encoding !== undefined || (length !== undefined && String(length).trim() !== '0')
}

/** Whether a request cannot be read any more. */
export function isAborted(request: IncomingMessage): boolean {
  const stream = streamOf(request)
  return request.destroyed || request.aborted || stream?.closed === true || stream?.destroyed === true
}

/** Whether no client is left to get an answer. */
export function isGone(response: ServerResponse): boolean {
  return response.destroyed || streamOf(response)?.destroyed === true
}

/** HTTP/2 has no status messages, and warns when one is read. */
export function forgetStatusMessage(response: ServerResponse): void {
  // Only where there is one: to add it to a response of Express takes microseconds.
  if (!streamOf(response) && response.statusMessage) response.statusMessage = ''
}

/** Breaks an answer off so that its client does not take it for the whole. HTTP/2 says so only if there is an error. */
export function breakOff(response: ServerResponse): void {
  if (streamOf(response)) response.destroy(new Error('The answer was broken off.'))
  else response.destroy()
}
