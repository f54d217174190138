import { type OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Answer } from '../../core/answer.js'
import { HeldResponse } from './held-response.js'
import { isHttp2 } from './http-versions.js'
import { mergeHeaders, sendAnswer, setHead } from './response-headers.js'

const methods = [
  'setHeader',
  'setHeaders',
  'appendHeader',
  'removeHeader',
  'getHeader',
  'getHeaders',
  'getHeaderNames',
  'hasHeader',
  'addTrailers',
  'writeHead',
  'flushHeaders',
  'write',
  'end',
  'destroy',
] as const

const views = ['statusMessage', 'headersSent', 'writableEnded', 'writableFinished', 'finished', 'destroyed'] as const

/**
 * For a response that was sent while its handler is still at work: from now on what is written to it goes to another one, without a connection, which
 * is returned.
 */
function redirectWrites(response: ServerResponse, baseline: OutgoingHttpHeaders): ServerResponse {
  const other = new ServerResponse(response.req ?? {})
  mergeHeaders(other, baseline)
  const { statusCode: sent } = response
  let status: number | undefined
  for (const name of methods) {
    const redirected = (...args: unknown[]) => {
      const result: unknown = Reflect.apply(other[name], other, args)
      return result === other ? response : result
    }
    Object.assign(response, { [name]: redirected })
  }
  for (const name of views) Object.defineProperty(response, name, { get: () => other[name], set: nothing, configurable: true })
  // Loggers in front read the one that was sent.
  Object.defineProperty(response, 'statusCode', {
    get: () => status ?? sent,
    set(code: number) {
      status = code
      other.statusCode = code
    },
    configurable: true,
  })
  return other
}

const nothing = () => {}

/**
 * The same where what is written is still of use. Who waits for the end of the response, such as `stream.pipeline()`, is told when the handler has
 * answered.
 */
export function redirectOpenly(response: ServerResponse, baseline: OutgoingHttpHeaders): ServerResponse {
  let isClosed = response.closed
  response.once('close', () => {
    isClosed = true
  })
  const other = redirectWrites(response, baseline)
  Object.defineProperty(response, 'closed', { get: () => other.closed, configurable: true })
  other.once('close', () => isClosed && response.emit('close'))
  return other
}

/**
 * The answer is out, but the handler does not know. Its writes must neither throw nor look like an error, for which Express would
 * destroy the connection.
 */
export function ignoreLaterWrites(response: ServerResponse): void {
  // Node drops what is written to it, and middleware in front may still end it (a session that is saved first).
  if (response.destroyed && !response.headersSent && !isHttp2(response)) return
  // They may here, too, with the methods that it has now.
  if (response.headersSent || response.destroyed) ignoreWrites(response)
  else response.once('finish', ignoreFromNowOn).once('close', ignoreFromNowOn)
}

function ignoreFromNowOn(this: ServerResponse): void {
  this.off('finish', ignoreFromNowOn).off('close', ignoreFromNowOn)
  ignoreWrites(this)
}

function ignoreWrites(response: ServerResponse): void {
  const other = redirectWrites(response, {})
  const held = new HeldResponse(other, { baseline: {}, maxBytes: 0, end: { answer: drop, fail: drop }, isAnswered: true })
  function drop(): void {
    process.nextTick(() => held.release([]))
  }
}

/**
 * Sends an answer while a handler is still at work that has another one in mind. If middleware in front ends it later, the handler may
 * have set a head of its own by then.
 */
export function sendInstead(response: ServerResponse, answer: Answer, baseline: OutgoingHttpHeaders): void {
  const { writeHead } = response
  response.writeHead = () => {
    response.writeHead = writeHead
    setHead(response, answer, baseline)
    return response.writeHead(answer.status)
  }
  // Or the process would end, should both be written.
  response.on('error', () => {})
  sendAnswer(response, answer, baseline)
}
