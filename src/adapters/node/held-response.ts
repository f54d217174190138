import { type OutgoingHttpHeaders, type ServerResponse, validateHeaderValue } from 'node:http'
import type { Answer } from '../../core/answer.js'
import { HeldBody } from './held-body.js'
import { type HeldSocket, onFinishedList } from './held-socket.js'
import { breakOff } from './http-versions.js'
import { ignoreLaterWrites, sendInstead } from './ignored-writes.js'
import { Overrides } from './overrides.js'
import { changedHeaders, type HeadersArgument, mergeHeaders } from './response-headers.js'
import { bytesOf, type Callback, type Chunk } from './written-bytes.js'

/** A response whose handler writes as ever, and of which nothing is complete before we say so. */
export interface HeldResponse {
  /** What the handler answered, once it has. Rejects if it destroyed the response. */
  readonly answer: Promise<Answer>
  /** Lets the handler's own answer go, with these headers where it has none of that name. */
  release(extra: Answer['headers']): void
  /** Sends this instead; whatever the handler wrote, or writes later, is dropped. */
  replaceBy(answer: Answer): void
  /** Leaves the handler's status and headers on the response, and everything else to whoever sends them. */
  giveBack(): void
}

export interface HoldOptions {
  /** The headers that are there before the handler, and will be at a replay: only what differs from them is part of the answer. */
  readonly baseline: OutgoingHttpHeaders
  /** Larger bodies are not kept in memory: they flow, but for their last piece. */
  readonly maxBytes: number
  readonly socket: HeldSocket
}

/** What Node itself goes by when it writes. */
const neededToWrite = ['writeHead', 'writeHeader', 'flushHeaders', 'headersSent', '_header', 'finished', 'destroyed', '_closed']

/**
 * Holds a response. Below every framework on Node there is this one object, so `res.json`, `res.end`, pipes, `sendFile`, `reply.send`,
 * `reply.raw` and `@Res()` are all caught here. A client that hangs up is not noticed by the handler: its work goes on.
 */
export function holdResponse(response: ServerResponse, { baseline, maxBytes, socket }: HoldOptions): HeldResponse {
  // The one property that nearly every handler adds: before ours, so that ours are the last, and can be taken away again.
  const { statusCode } = response
  response.statusCode = statusCode
  const overrides = new Overrides(response)
  const body = new HeldBody(maxBytes, flow)
  /** Undefined until the head is written. */
  let status: number | undefined
  let flowing = false
  let ended = false
  let over = false
  let clientGone = false
  let resolve!: (answer: Answer) => void
  let reject!: (error: Error) => void
  const answer = new Promise<Answer>((...settle) => {
    ;[resolve, reject] = settle
  })
  answer.catch(() => {})

  overrides.method('writeHead', writeHead)
  overrides.method('writeHeader', writeHead)
  overrides.method('flushHeaders', writeHeadIfNeeded)
  overrides.method('write', (chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback) => {
    const done = typeof encoding === 'function' ? encoding : callback
    const piece = bytesOf(chunk, encoding)
    if (over || ended) {
      if (done) process.nextTick(done, over ? null : new Error('The response was ended already.'))
      return over
    }
    writeHeadIfNeeded()
    return body.write(piece, done)
  })
  overrides.method('end', (...args: (Chunk | Callback | BufferEncoding | null | undefined)[]) => {
    if (over) return response
    const [chunk, encoding] = args
    const piece = chunk === undefined || chunk === null || typeof chunk === 'function' ? undefined : bytesOf(chunk, encoding)
    if (!ended) writeHeadIfNeeded()
    const done = args.find((argument) => typeof argument === 'function')
    if (done) response.once('finish', done)
    if (ended) return response
    if (piece) body.write(piece)
    ended = true
    overrides.show('finished', true)
    overrides.show('writableEnded', true)
    resolve(body.kept(status as number, changedHeaders(response, baseline)))
    return response
  })
  overrides.method('destroy', (error?: Error) => {
    // A framework does that to a handler which answers twice; the first answer is whole, and on its way.
    if (ended || !finish()) return response
    reject(error ?? new Error('The handler destroyed its response.'))
    if (clientGone) leave()
    else response.destroy(error)
    return response
  })
  overrides.method('emit', (event: string, ...details: unknown[]) => {
    overrides.hideChanges()
    if (event !== 'close' && event !== 'finish') return overrides.original('emit').call(response, event, ...details)
    clientGone = true
    // Whoever waits for the client to read on would wait for ever.
    if (flowing) response.emit('drain')
    return true
  })
  // Who compresses in front of us sends those who wait for 'drain' to a stream of theirs, where we could not wake them.
  overrides.method('on', (event: string, listener: () => void) => {
    return (event === 'drain' ? overrides.inherited('on') : overrides.original('on')).call(response, event, listener)
  })
  // There is nothing to hold together, and a socket may be in use for another answer.
  overrides.method('cork', () => {})
  overrides.method('uncork', () => {})
  overrides.value('headersSent', false)
  overrides.value('_header', null)
  overrides.value('finished', false)
  overrides.value('writableEnded', false)
  overrides.value('writableFinished', false)
  overrides.value('destroyed', false)
  overrides.value('_closed', false)
  overrides.value('socket', socket.seeming)
  overrides.property(onFinishedList, null)

  return {
    answer,

    release(extra) {
      if (!finish()) return
      if (!flowing) {
        // Whoever changes it after the head is written changes nothing on Node.
        response.statusCode = status as number
        for (const [name, value] of extra) if (!response.hasHeader(name)) response.setHeader(name, value)
      }
      // One piece in one call: then Node says how long it is. If nobody is left to get it, those in front of us have their say all the
      // same: sessions are saved at the end.
      if (!response.writableEnded) response.end(body.rest())
      if (clientGone) leave()
    },

    replaceBy(given) {
      if (!finish()) return
      if (clientGone || response.writableEnded) return leave()
      if (flowing) breakOff(response)
      else sendInstead(response, given, baseline)
      ignoreLaterWrites(response)
    },

    giveBack() {
      if (finish() && clientGone) response.emit('close')
    },
  }

  /** False if it was over before. */
  function finish(): boolean {
    if (over) return false
    over = true
    overrides.remove()
    socket.letGo()
    if (response.closed) socket.tellClosed()
    else response.once('close', socket.tellClosed)
    return true
  }

  function leave(): void {
    ignoreLaterWrites(response)
    response.emit('close')
  }

  function writeHead(code: number | string, ...rest: unknown[]): ServerResponse {
    if (status !== undefined) throw new Error('The head of this response was written already.')
    // As Node does it, and at once: when the answer leaves there is nobody left to throw to.
    const written = Number(code) | 0
    if (written < 100 || written > 999) throw new RangeError(`Invalid status code: ${code}`)
    if (typeof rest[0] === 'string') {
      validateHeaderValue('status message', rest[0])
      response.statusMessage = rest[0]
    }
    mergeHeaders(response, rest.find((argument) => typeof argument === 'object' && argument !== null) as HeadersArgument)
    response.statusCode = written
    status = written
    overrides.show('headersSent', true)
    overrides.show('_header', 'held')
    return response
  }

  function writeHeadIfNeeded(): void {
    // By its name, so that whoever put something in front of it meanwhile has their say.
    if (status === undefined) response.writeHead(response.statusCode)
  }

  function flow(bytes: Uint8Array, done: Callback | undefined): boolean {
    if (clientGone) {
      if (done) process.nextTick(done)
      return true
    }
    if (!flowing) startFlowing()
    // That the client has gone is no error of the handler's.
    return overrides.original('write').call(response, bytes, 'utf8', () => done?.())
  }

  function startFlowing(): void {
    flowing = true
    overrides.remove(neededToWrite)
    response.statusCode = status as number
    let telling = false
    // See above: those who wait for us, and not for who compresses, are told by us.
    overrides.replaced('on')?.call(response, 'drain', () => {
      if (telling) return
      telling = true
      response.emit('drain')
      telling = false
    })
  }
}
