import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Answer } from '../../core/answer.js'
import { Overrides } from './overrides.js'
import { changedHeaders, type HeadersArgument, mergeHeaders, sendAnswer } from './response-headers.js'

/** A response whose handler writes as ever, and of which nothing is complete before we say so. */
export interface HeldResponse {
  /** What the handler answered, once it has. Rejects if it destroyed the response. */
  readonly answer: Promise<Answer>
  /** Lets the handler's own answer go, with these headers where it has none of that name. */
  release(extra: Answer['headers']): void
  /** Sends this instead; whatever the handler wrote, or writes later, is dropped. */
  replaceBy(answer: Answer): void
}

export interface HoldOptions {
  /** The headers that are there before the handler, and will be at a replay: only what differs from them is part of the answer. */
  readonly baseline: OutgoingHttpHeaders
  /** Larger bodies are not kept in memory: they flow, but for their last piece. */
  readonly maxBytes: number
}

type Chunk = Uint8Array | string
type Callback = (error?: Error | null) => void

/**
 * Holds a response. Below every framework on Node there is this one object, so `res.json`, `res.end`, pipes, `sendFile`, `reply.send`,
 * `reply.raw` and `@Res()` are all caught here. A client that hangs up is not noticed by the handler: its work goes on.
 */
export function holdResponse(response: ServerResponse, { baseline, maxBytes }: HoldOptions): HeldResponse {
  const overrides = new Overrides(response)
  let pieces: Uint8Array[] = []
  let size = 0
  let headWritten = false
  let flowing = false
  let ended = false
  let clientGone = false
  let whenSent: Callback | undefined
  let resolve!: (answer: Answer) => void
  let reject!: (error: Error) => void
  const answer = new Promise<Answer>((...settle) => {
    ;[resolve, reject] = settle
  })
  answer.catch(() => {})

  overrides.method('writeHead', (status: number, ...rest: unknown[]) => {
    if (headWritten) throw new Error('The head of this response was written already.')
    response.statusCode = status
    if (typeof rest[0] === 'string') response.statusMessage = rest[0]
    mergeHeaders(response, rest.find((argument) => typeof argument === 'object' && argument !== null) as HeadersArgument)
    headWritten = true
    return response
  })
  overrides.method('flushHeaders', writeHeadIfNeeded)
  overrides.method('write', (chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback) => {
    const done = typeof encoding === 'function' ? encoding : callback
    if (ended) {
      process.nextTick(() => done?.(new Error('The response was ended already.')))
      return false
    }
    writeHeadIfNeeded()
    return keep(chunk, encoding, done)
  })
  overrides.method('end', (chunk?: Chunk | Callback | null, encoding?: BufferEncoding | Callback, callback?: Callback) => {
    if (ended) return response
    writeHeadIfNeeded()
    if (chunk !== undefined && chunk !== null && typeof chunk !== 'function') keep(chunk, encoding)
    whenSent = [chunk, encoding, callback].find((argument) => typeof argument === 'function') as Callback | undefined
    ended = true
    resolve(snapshot())
    return response
  })
  overrides.method('destroy', (error?: Error) => {
    overrides.remove()
    reject(error ?? new Error('The handler destroyed its response.'))
    return response.destroy(error)
  })
  overrides.method('emit', (event: string, ...details: unknown[]) => {
    if (event !== 'close') return overrides.original('emit').call(response, event, ...details)
    clientGone = true
    // Whoever waits for the client to read on would wait for ever.
    if (flowing) response.emit('drain')
    return true
  })
  overrides.value('headersSent', () => headWritten)
  overrides.value('_header', () => (headWritten ? 'held' : null))
  overrides.value('finished', () => ended)
  overrides.value('writableEnded', () => ended)
  overrides.value('destroyed', () => false)
  overrides.value('_closed', () => false)
  // on-finished and Koa look at the socket to see whether anybody still listens.
  overrides.value('socket', () => null)

  return {
    answer,

    release(extra) {
      overrides.remove()
      if (clientGone) return leave()
      if (!flowing) for (const [name, value] of extra) if (!response.hasHeader(name)) response.setHeader(name, value)
      // One piece in one call: then Node says how long it is.
      response.end(Buffer.concat(pieces), whenSent)
    },

    replaceBy(given) {
      overrides.remove()
      if (clientGone) return leave()
      // Half of the handler's answer is on its way: the client must not take it for the whole.
      if (flowing) response.destroy()
      else sendAnswer(response, given, baseline)
      ignoreLaterWrites(response)
    },
  }

  function leave(): void {
    ignoreLaterWrites(response)
    response.emit('close')
  }

  function writeHeadIfNeeded(): void {
    // By its name, so that whoever put something in front of it meanwhile has their say.
    if (!headWritten) response.writeHead(response.statusCode)
  }

  function keep(chunk: Chunk, encoding?: unknown, done?: Callback): boolean {
    const piece =
      typeof chunk === 'string' ? Buffer.from(chunk, typeof encoding === 'string' ? (encoding as BufferEncoding) : 'utf8') : chunk
    size += piece.length
    if (piece.length > 0) pieces.push(piece)
    if (size > maxBytes) return flow(done)
    if (done) process.nextTick(done)
    return true
  }

  /** Too large to be kept, so it need not be held back, but for the last piece: that one waits until the record is written. */
  function flow(done?: Callback): boolean {
    const goes = Buffer.concat(pieces.slice(0, -1))
    pieces = pieces.slice(-1)
    if (clientGone || goes.length === 0) {
      if (done) process.nextTick(done)
      return true
    }
    // From here on the response is what it seems, but that it does not end.
    if (!flowing) overrides.remove(['writeHead', 'flushHeaders', 'headersSent', '_header', 'finished', 'destroyed', '_closed', 'socket'])
    flowing = true
    return overrides.original('write').call(response, goes, 'utf8', done)
  }

  function snapshot(): Answer {
    const head = { status: response.statusCode, headers: changedHeaders(response, baseline) }
    if (size > maxBytes) return { ...head, body: new Uint8Array(), omittedBytes: size }
    return { ...head, body: bodiless.has(head.status) ? new Uint8Array() : Buffer.concat(pieces) }
  }
}

/** Node sends no body with these, whatever a handler writes. */
const bodiless = new Set([204, 205, 304])

/**
 * The answer is out, but the handler does not know. Its writes must neither throw nor look like an error, for which Express would
 * destroy the connection.
 */
export function ignoreLaterWrites(response: ServerResponse): void {
  const ignore = () => {
    response.off('finish', ignore).off('close', ignore)
    const overrides = new Overrides(response)
    for (const name of ['setHeader', 'setHeaders', 'appendHeader', 'removeHeader', 'writeHead', 'flushHeaders', 'end']) {
      overrides.method(name, () => response)
    }
    overrides.method('write', () => true)
    overrides.value('headersSent', () => false)
  }
  // Somebody in front of us may end it later (a session that is saved first), with the methods that it has now.
  if (response.headersSent || response.destroyed) ignore()
  else response.once('finish', ignore).once('close', ignore)
}
