import { once as eventOf } from 'node:events'
import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { onTestFinished } from 'vitest'

/** What a service on another origin has to allow, as the guide has it. */
const cors = {
  'access-control-allow-origin': '*',
  'access-control-allow-methods': 'POST',
  'access-control-allow-headers': 'Content-Type, Idempotency-Key',
  'access-control-expose-headers': 'Idempotent-Replayed, Retry-After, Location, Date',
}

/** Serves the shop's page on every host name, and hands its payments on to a service: a page of one name pays on another origin. `/moved` redirects. */
export async function startFront(target: number): Promise<{ readonly port: number }> {
  const script = await bundledPage()
  const server = createServer((request, response) => {
    if (request.url === '/shop.js') {
      response.writeHead(200, { 'content-type': 'text/javascript' }).end(script)
    } else if (request.method === 'OPTIONS') {
      response.writeHead(204, cors).end()
    } else if (request.url === '/moved') {
      response.writeHead(307, { location: '/charges', ...cors }).end()
    } else if (request.method === 'POST') {
      const { url: path, method, headers } = request
      const onward = forward({ port: target, host: '127.0.0.1', path, method, headers }, (answer) => {
        response.writeHead(answer.statusCode as number, { ...answer.headers, ...cors })
        answer.pipe(response)
      })
      onward.on('error', () => response.destroy())
      response.on('close', () => onward.destroy())
      request.pipe(onward)
    } else {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><script type="module" src="/shop.js"></script>')
    }
  })
  server.listen(0, '127.0.0.1')
  await eventOf(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { port: (server.address() as AddressInfo).port }
}

async function bundledPage(): Promise<string> {
  const entryPoints = [fileURLToPath(new URL('./shop-page.ts', import.meta.url))]
  const { outputFiles } = await build({ entryPoints, bundle: true, format: 'esm', platform: 'browser', write: false, logLevel: 'error' })
  return outputFiles[0]?.text as string
}
