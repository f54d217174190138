import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Answer } from '../../core/answer.js'
import { Overrides } from './overrides.js'
import { sendAnswer, setHead } from './response-headers.js'
import type { Callback } from './written-bytes.js'

/**
 * The answer is out, but the handler does not know. Its writes must neither throw nor look like an error, for which Express would
 * destroy the connection.
 */
export function ignoreLaterWrites(response: ServerResponse): void {
  // Somebody in front of us may end it later (a session that is saved first), with the methods that it has now.
  if (response.headersSent || response.destroyed) ignoreWrites(response)
  else response.once('finish', ignoreFromNowOn).once('close', ignoreFromNowOn)
}

function ignoreFromNowOn(this: ServerResponse): void {
  this.off('finish', ignoreFromNowOn).off('close', ignoreFromNowOn)
  ignoreWrites(this)
}

const headMethods = ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead', 'flushHeaders', 'addTrailers'] as const

function ignoreWrites(response: ServerResponse): void {
  const overrides = new Overrides(response)
  for (const name of headMethods) overrides.method(name, self)
  overrides.method('write', ignoredWrite)
  overrides.method('end', ignoredEnd)
  overrides.value('headersSent', false)
}

function self(this: ServerResponse): ServerResponse {
  return this
}

function ignoredWrite(...args: readonly unknown[]): boolean {
  tellWritten(args)
  return true
}

function ignoredEnd(this: ServerResponse, ...args: readonly unknown[]): ServerResponse {
  tellWritten(args)
  return this
}

/**
 * Sends an answer while a handler is still at work that has another one in mind. If somebody in front of us ends it later, the handler may
 * have set a head of its own by then.
 */
export function sendInstead(response: ServerResponse, answer: Answer, baseline: OutgoingHttpHeaders): void {
  const overrides = new Overrides(response)
  overrides.method('writeHead', () => {
    overrides.remove()
    setHead(response, answer, baseline)
    return response.writeHead(answer.status)
  })
  // Or the process would end, should both be written.
  response.on('error', () => {})
  sendAnswer(response, answer, baseline)
}

function tellWritten(args: readonly unknown[]): void {
  const done = args.find((argument) => typeof argument === 'function') as Callback | undefined
  if (done) process.nextTick(done)
}
