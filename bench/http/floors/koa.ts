import type { Middleware } from 'koa'
import { type Floor, headerPairs, replayedHeader } from './floor.js'

/** Behind the body parser, which keeps the text of the body; what the middleware behind it answered is in `ctx.body`. */
export function koaFloor({ claim, finish }: Floor): Middleware {
  return async (ctx, next) => {
    const body = Buffer.from(ctx.request.rawBody)
    const { answer, lease } = await claim({ key: ctx.get('idempotency-key'), path: ctx.path, mediaType: ctx.get('content-type'), body })
    if (answer) {
      ctx.status = answer.status
      for (const [name, value] of answer.headers) ctx.set(name, value)
      ctx.set(...replayedHeader)
      ctx.body = Buffer.from(answer.body)
      return
    }
    await next()
    const bytes = Buffer.from(JSON.stringify(ctx.body))
    ctx.body = bytes
    await finish(lease, { status: ctx.status, headers: headerPairs(ctx.response.headers), body: bytes })
  }
}
