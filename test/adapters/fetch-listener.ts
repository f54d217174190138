import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'

/** The smallest bridge from node:http to the Fetch standard: plain `Request` and `Response`, as Next.js hands them out. */
export function fetchListener(handler: (request: Request) => Promise<Response> | Response): RequestListener {
  return async (incoming, outgoing) => {
    try {
      await send(await handler(requestOf(incoming, outgoing)), outgoing)
    } catch {
      if (outgoing.headersSent) outgoing.destroy()
      else outgoing.writeHead(500).end()
    }
  }
}

function requestOf(incoming: IncomingMessage, outgoing: ServerResponse): Request {
  const { method = 'GET', url = '/', rawHeaders } = incoming
  const client = new AbortController()
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) client.abort(new Error('The client has gone.'))
  })
  const headers = new Headers()
  for (const [index, name] of rawHeaders.entries()) if (index % 2 === 0) headers.append(name, rawHeaders[index + 1] as string)
  const body = method === 'GET' || method === 'HEAD' ? {} : { body: Readable.toWeb(incoming) as ReadableStream, duplex: 'half' as const }
  return new Request(`http://localhost${url}`, { method, headers, signal: client.signal, ...body })
}

async function send({ status, headers, body }: Response, outgoing: ServerResponse): Promise<void> {
  const cookies = headers.getSetCookie()
  const others = Object.fromEntries([...headers].filter(([name]) => name !== 'set-cookie'))
  outgoing.writeHead(status, { ...others, ...(cookies.length > 0 ? { 'set-cookie': cookies } : {}) })
  if (!body) return void outgoing.end()
  outgoing.flushHeaders()
  const reader = body.getReader()
  const gone = new Promise<void>((resolve) => outgoing.once('close', resolve))
  void gone.then(() => reader.cancel().catch(() => {}))
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return void outgoing.end()
    if (!outgoing.write(value)) await Promise.race([gone, new Promise<void>((resolve) => outgoing.once('drain', resolve))])
  }
}
