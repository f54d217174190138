import { type OutgoingHttpHeaders, type ServerResponse, validateHeaderValue } from 'node:http'
import type { Answer } from '../../core/answer.js'
import { type HeldSocket, onFinishedList } from './held-socket.js'
import { ignoreLaterWrites } from './ignored-writes.js'
import { Overrides } from './overrides.js'
import { changedHeaders, type HeadersArgument, mergeHeaders, sendAnswer } from './response-headers.js'
import { bytesOf, type Callback, type Chunk, isBodiless } from './written-bytes.js'

/** A response whose handler writes as ever, and of which nothing is complete before we say so. */
export interface HeldResponse {
  /** What the handler answered, once it has. Rejects if it destroyed the response. */
  readonly answer: Promise<Answer>
  /** True once a part of the answer is on its way. */
  flows(): boolean
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

/** What tells whether the head is on its way. */
const ofTheHead = ['writeHead', 'flushHeaders', 'headersSent', '_header']

/**
 * Holds a response. Below every framework on Node there is this one object, so `res.json`, `res.end`, pipes, `sendFile`, `reply.send`,
 * `reply.raw` and `@Res()` are all caught here. A client that hangs up is not noticed by the handler: its work goes on.
 */
export function holdResponse(response: ServerResponse, { baseline, maxBytes, socket }: HoldOptions): HeldResponse {
  const overrides = new Overrides(response)
  const frontOn = Object.hasOwn(response, 'on') ? response.on : undefined
  let pieces: Uint8Array[] = []
  let size = 0
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

  overrides.method('writeHead', (code: number | string, ...rest: unknown[]) => {
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
    return response
  })
  overrides.method('flushHeaders', writeHeadIfNeeded)
  overrides.method('write', (chunk: Chunk, encoding?: BufferEncoding | Callback, callback?: Callback) => {
    const done = typeof encoding === 'function' ? encoding : callback
    const piece = bytesOf(chunk, encoding)
    if (over || ended) {
      if (done) process.nextTick(done, over ? null : new Error('The response was ended already.'))
      return over
    }
    writeHeadIfNeeded()
    // Whoever is told that it is written may use the memory for something else.
    return keep(done ? Buffer.from(piece) : piece, done)
  })
  overrides.method('end', (...args: (Chunk | Callback | BufferEncoding | null | undefined)[]) => {
    if (over) return response
    const [chunk, encoding] = args
    const piece = chunk === undefined || chunk === null || typeof chunk === 'function' ? undefined : bytesOf(chunk, encoding)
    if (!ended) writeHeadIfNeeded()
    const done = args.find((argument) => typeof argument === 'function')
    if (done) response.once('finish', done)
    if (ended) return response
    if (piece) keep(piece)
    ended = true
    resolve(snapshot())
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
  overrides.value('headersSent', () => status !== undefined)
  overrides.value('_header', () => (status === undefined ? null : 'held'))
  overrides.value('finished', () => ended)
  overrides.value('writableEnded', () => ended)
  overrides.value('writableFinished', () => false)
  overrides.value('destroyed', () => false)
  overrides.value('_closed', () => false)
  overrides.value('socket', () => socket.seeming)
  overrides.property(onFinishedList, null)

  return {
    answer,
    flows: () => flowing,

    release(extra) {
      if (!finish()) return
      if (clientGone) return leave()
      if (!flowing) {
        // Nobody who changes it after the head is written changes anything on Node.
        response.statusCode = status as number
        for (const [name, value] of extra) if (!response.hasHeader(name)) response.setHeader(name, value)
      }
      // One piece in one call: then Node says how long it is.
      response.end(Buffer.concat(pieces))
    },

    replaceBy(given) {
      if (!finish()) return
      if (clientGone) return leave()
      // Half of the handler's answer is on its way: the client must not take it for the whole.
      if (flowing) response.destroy()
      else sendAnswer(response, given, baseline)
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
    response.once('close', socket.tellClosed)
    return true
  }

  function leave(): void {
    ignoreLaterWrites(response)
    response.emit('close')
  }

  function writeHeadIfNeeded(): void {
    // By its name, so that whoever put something in front of it meanwhile has their say.
    if (status === undefined) response.writeHead(response.statusCode)
  }

  function keep(piece: Uint8Array, done?: Callback): boolean {
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
    if (!flowing) startFlowing()
    // That the client has gone is no error of the handler's.
    return overrides.original('write').call(response, goes, 'utf8', () => done?.())
  }

  function startFlowing(): void {
    flowing = true
    overrides.remove(ofTheHead)
    response.statusCode = status as number
    let telling = false
    frontOn?.call(response, 'drain', () => {
      if (telling) return
      telling = true
      response.emit('drain')
      telling = false
    })
  }

  function snapshot(): Answer {
    const head = { status: status as number, headers: changedHeaders(response, baseline) }
    if (isBodiless(head.status)) return { ...head, body: new Uint8Array() }
    return size > maxBytes ? { ...head, body: new Uint8Array(), omittedBytes: size } : { ...head, body: Buffer.concat(pieces) }
  }
}
