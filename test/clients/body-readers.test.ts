// However a handler reads its body, it gets to the end of it: streams tell that in several ways.
import { once as eventOf } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { finished, pipeline } from 'node:stream/promises'
import { expect, onTestFinished, test } from 'vitest'
import { idempotency } from '../../src/adapters/node.js'
import { createOnce } from '../../src/index.js'
import { memoryStore } from '../../src/stores/memory/index.js'

type Reader = (request: IncomingMessage) => Promise<string>

const readers: [name: string, read: Reader][] = [
  [
    'data and end',
    (request) =>
      new Promise((resolve) => {
        let body = ''
        request.on('data', (piece) => {
          body += piece
        })
        request.on('end', () => resolve(body))
      }),
  ],
  [
    'for await',
    async (request) => {
      let body = ''
      for await (const piece of request) body += piece
      return body
    },
  ],
  [
    'pipeline()',
    async (request) => {
      const through = new PassThrough()
      const [body] = await Promise.all([text(through), pipeline(request, through)])
      return body
    },
  ],
  [
    'finished()',
    async (request) => {
      let body = ''
      request.on('data', (piece) => {
        body += piece
      })
      await finished(request)
      return body
    },
  ],
]

async function setup(read: Reader) {
  const handler: RequestListener = async (request, response) => {
    response.end(await read(request))
  }
  const once = createOnce({ store: memoryStore() })
  const server = createServer(idempotency(once, { tenant: 'single', afterFailure: 'rerun' })(handler)).listen(0, '127.0.0.1')
  await eventOf(server, 'listening')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

// Whoever does not get to the end hangs: a long wait for a short test.
test.each(readers)('%s', { timeout: 20_000 }, async (_, read) => {
  const { url } = await setup(read)
  const post = () => fetch(url, { method: 'POST', headers: { 'idempotency-key': 'k' }, body: 'the body' })
  expect(await (await post()).text()).toBe('the body')
  expect((await post()).headers.get('idempotent-replayed')).toBe('true')
})
