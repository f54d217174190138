import type { OutgoingHttpHeaders } from 'node:http'
import type { Context } from 'koa'
import type { Answer } from '../../core/answer.js'
import { isJson } from '../../core/media-type.js'
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
  const type = all.find(([name]) => name.toLowerCase() === 'content-type')?.[1] ?? ''
  ctx.status = status
  ctx.body = isBodiless(status) ? null : bodyFor(type, Buffer.from(body.buffer, body.byteOffset, body.length))
  // Koa has guessed one.
  res.removeHeader('content-type')
  mergeHeaders(res, baseline)
  const headers = unlessNamed(all, res.hasHeader('request-id'))
  for (const [name] of headers) res.removeHeader(name)
  for (const [name, value] of headers) res.appendHeader(name, value)
}

/** Reading more takes over ten milliseconds. */
const mostReadBytes = 1024 * 1024

/**
 * What a body is for middleware in front of us, such as one that wraps it: the same for the first answer, of which only the handler knows what it
 * was, and for its replays. A value only if Koa makes the same bytes of it.
 */
export function bodyFor(mediaType: string, bytes: Buffer): unknown {
  const json = isJson(mediaType)
  if ((!json && !mediaType.startsWith('text/')) || bytes.length > mostReadBytes) return bytes
  const text = bytes.toString()
  if (json) {
    const value = parsed(text)
    if (typeof value === 'object' && value !== null && JSON.stringify(value) === text) return value
  }
  return Buffer.byteLength(text) === bytes.length && Buffer.from(text).equals(bytes) ? text : bytes
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
