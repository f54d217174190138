import type { Context } from 'koa'
import type { Leaving } from '../../http/handler-attempt.js'
import { type Begun, conclude } from '../node/exchange.js'
import { breakOff } from '../node/http-versions.js'
import { answerWith, bodyFor } from './context-answer.js'
import { contextBody, isStream } from './context-body.js'

/**
 * Runs the middleware behind us. What it leaves on the context is the answer: it is stored, and only then do those in front of us have
 * their say, as they have at each replay. An error goes to them as it is, and so does a request without an answer; what they or Koa
 * make of it is the answer then, as is what is written to `ctx.res`. Those are caught below Koa, and stored as they go out.
 */
export async function runHeld(
  ctx: Context,
  next: () => Promise<unknown>,
  { held, outcome, within }: Extract<Begun, { kind: 'run' }>,
  maxBytes: number,
): Promise<void> {
  let isOnContext = false
  let isSent = false
  const showConnectionErrors = hideConnectionErrors(ctx)
  const decided = outcome.then((leaving) => {
    showConnectionErrors()
    if (isOnContext) return leaving
    isSent = true
    conclude(ctx.res, held, leaving)
    return undefined
  })

  await within(next).catch((error: unknown) => {
    // Half of an answer was written to `ctx.res`, so it cannot be answered any more, and would not end.
    if (ctx.headerSent && !ctx.res.writableEnded) breakOff(ctx.res)
    throw error
  })
  const left = isSent || ctx.respond === false || ctx.headerSent ? undefined : contextBody(ctx, maxBytes)
  const body = left instanceof Promise ? await left : left
  if (!isSent && body === undefined) return
  if (!isSent && Buffer.isBuffer(body)) {
    isOnContext = true
    ctx.res.end(body)
    const leaving = (await decided) as Leaving
    held.giveBack()
    if (leaving.kind === 'own') leaveOwn(ctx, body, leaving.headers)
    else answerWith(ctx, leaving.answer, held.baseline)
    return
  }
  ctx.respond = false
  if (body && !Buffer.isBuffer(body)) await pour(body, ctx.res, () => isSent)
  await decided
}

/** The context is as its middleware left it, but for a body that replays would give those in front of us in another form. */
function leaveOwn(ctx: Context, body: Buffer, headers: readonly (readonly [string, string])[]): void {
  for (const [name, value] of headers) if (!ctx.res.hasHeader(name)) ctx.set(name, value)
  const left: unknown = ctx.body
  // Koa writes it as JSON, which replays read.
  if (typeof left === 'object' && !Buffer.isBuffer(left) && !isStream(left)) return
  const type = ctx.res.getHeader('content-type')
  const value = bodyFor(String(type ?? ''), body)
  if (typeof value === typeof left && Buffer.isBuffer(value) === Buffer.isBuffer(left) && !isStream(left)) return
  ctx.body = value
  if (type === undefined) ctx.remove('content-type')
  else ctx.res.setHeader('content-type', type)
}

/** A body that is too large to be kept, as fast as its client takes it. */
async function pour(body: AsyncIterable<Uint8Array>, response: Context['res'], isOver: () => boolean): Promise<void> {
  try {
    for await (const piece of body) {
      if (isOver()) return
      if (!response.write(piece)) await room(response)
    }
    response.end()
  } catch (error) {
    // Half of it is on its way, so it cannot be answered any more.
    breakOff(response)
    throw error
  }
}

function room(response: Context['res']): Promise<void> {
  return new Promise((resolve) => {
    const goOn = () => {
      response.off('drain', goOn).off('close', goOn)
      resolve()
    }
    response.on('drain', goOn).on('close', goOn)
  })
}

/**
 * Koa answers 500 when the connection breaks under a request, which the broken socket drops. A held response does not
 * know that its client has gone, and the work is going on: such an error is told to the application, and no more.
 */
function hideConnectionErrors(ctx: Context): () => void {
  const { onerror } = ctx
  const { socket } = ctx.req
  ctx.onerror = (error) => {
    if (error && error === socket.errored) ctx.app.emit('error', error, ctx)
    else onerror.call(ctx, error)
  }
  return () => {
    ctx.onerror = onerror
  }
}
