import type { OutgoingHttpHeaders } from 'node:http'
import type { Context } from 'koa'
import type { Answer } from '../../core/answer.js'
import { unlessNamed } from '../../http/request-ids.js'
import { mergeHeaders } from '../node/response-headers.js'
import { isBodiless } from '../node/written-bytes.js'

/**
 * Leaves an answer on the context, so that the middleware in front of us sees it and Koa sends it. With `baseline`, what others have left
 * there since is taken away.
 */
export function answerWith(ctx: Context, { status, headers: all, body }: Answer, baseline?: OutgoingHttpHeaders): void {
  const { res } = ctx
  if (baseline) for (const name of res.getHeaderNames()) res.removeHeader(name)
  ctx.status = status
  ctx.body = isBodiless(status) ? null : Buffer.from(body)
  // Koa has guessed one.
  res.removeHeader('content-type')
  mergeHeaders(res, baseline)
  const headers = unlessNamed(all, res.hasHeader('request-id'))
  for (const [name] of headers) res.removeHeader(name)
  for (const [name, value] of headers) res.appendHeader(name, value)
}
