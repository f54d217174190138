// What the browser talks to: the page, and a gateway to the processes behind it. It lives on while those die, as a load balancer does.
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, request as requestOf, type Server, type ServerResponse } from 'node:http'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { burst } from './burst.js'
import { addressOf, answering, jsonBody, sendJson } from './http.js'
import type { Supervised } from './supervised.js'
import { watch } from './watch.js'

export interface Processes {
  provider: Supervised
  service: Supervised
  naive: Supervised
}

const types: Record<string, string> = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml' }
/** The client that the page retries with is the package's own, as it is published. */
const folders = { '/page/': new URL('./page/', import.meta.url), '/client/': new URL('../../dist/client/', import.meta.url) }

/** `processes` is undefined until they are all there. */
export function createFront(processes: () => Processes | undefined): Server {
  return createServer(answering(answer))

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = addressOf(request)
    const file = fileOf(pathname)
    if (file) return sendFile(response, file)
    const all = processes()
    if (!all) return sendJson(response, 503, { error: 'still_starting' })
    if (pathname === '/watch') return sendJson(response, 200, await watch(all, searchParams))
    if (pathname === '/burst') return sendBurst(response, all, await jsonBody(request))
    if (pathname === '/crash') {
      // Both, and neither knows of the other: each dies in the middle of its next call to the provider.
      for (const each of [all.service, all.naive]) each.send({ crash: request.method === 'POST' })
      return sendJson(response, 200, {})
    }
    if (pathname.startsWith('/provider/')) return forward(request, response, all.provider.url, request.url?.slice('/provider'.length))
    if (pathname.startsWith('/naive/')) return forward(request, response, all.naive.url, request.url?.slice('/naive'.length))
    forward(request, response, all.service.url, request.url)
  }
}

async function sendBurst(response: ServerResponse, all: Processes, asked: unknown): Promise<void> {
  if (typeof asked !== 'object' || asked === null) return sendJson(response, 400, { error: 'not_understood' })
  sendJson(response, 200, await burst(all, asked))
}

/** Whoever is behind it and dies, the client hears of it as it would from any gateway: 502. */
function forward(request: IncomingMessage, response: ServerResponse, target: string, path = '/'): void {
  const onward = requestOf(`${target}${path}`, { method: request.method, headers: request.headers, agent: false }, (answer) => {
    const { connection: _, ...headers } = answer.headers
    response.writeHead(answer.statusCode as number, headers)
    answer.pipe(response)
    answer.once('error', () => response.destroy())
  })
  onward.once('error', () => (response.headersSent ? response.destroy() : sendJson(response, 502, { error: 'the_server_is_gone' })))
  request.pipe(onward)
}

function fileOf(pathname: string): URL | undefined {
  if (pathname === '/') return new URL('index.html', folders['/page/'])
  const [, folder, name] = /^(\/page\/|\/client\/)([\w-]+(?:\/[\w-]+)?\.\w+)$/.exec(pathname) ?? []
  return folder && name ? new URL(name, folders[folder as keyof typeof folders]) : undefined
}

async function sendFile(response: ServerResponse, file: URL): Promise<void> {
  const bytes = await readFile(file).catch(() => undefined)
  if (!bytes) return sendJson(response, 404, { error: 'not_found' })
  const type = types[extname(fileURLToPath(file))] ?? 'application/octet-stream'
  response.writeHead(200, { 'content-type': `${type}; charset=utf-8`, 'cache-control': 'no-cache' }).end(bytes)
}
