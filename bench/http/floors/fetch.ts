import type { Context, Next } from 'hono'
import { type Floor, replayedHeader } from './floor.js'

/** The request is read once and handed on, made anew from its bytes; the response is read once. */
export async function fetchFloor(
  { claim, finish }: Floor,
  request: Request,
  handler: (request: Request) => Promise<Response>,
): Promise<Response> {
  const { method, url, headers } = request
  const body = new Uint8Array(await request.arrayBuffer())
  const key = headers.get('idempotency-key') as string
  const path = url.slice(url.indexOf('/', 8))
  const { answer, lease } = await claim({ key, path, mediaType: headers.get('content-type') as string, body })
  if (answer) {
    return new Response(answer.body as Uint8Array<ArrayBuffer>, {
      status: answer.status,
      headers: [...answer.headers, replayedHeader] as [string, string][],
    })
  }
  const response = await handler(new Request(url, { method, headers, body }))
  const bytes = new Uint8Array(await response.arrayBuffer())
  await finish(lease, { status: response.status, headers: [...response.headers], body: bytes })
  return new Response(bytes, { status: response.status, headers: response.headers })
}

/** The same as a middleware of Hono, which takes both from the context. */
export const honoFloor = (floor: Floor) => async (c: Context, next: Next) => {
  const response = await fetchFloor(floor, c.req.raw, async (request) => {
    c.req.raw = request
    await next()
    return c.res
  })
  // Set over another one, Hono would add the headers of that to it.
  c.res = undefined
  c.res = response
}
