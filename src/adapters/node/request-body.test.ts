import { createServer, type IncomingMessage, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { readBody } from './request-body.js'

test('two who read a body while it arrives both have it, and whoever comes later, too', async () => {
  const read = new Promise<unknown>((resolve, reject) => {
    const server = createServer((incoming: IncomingMessage, response) => {
      const reading = { maxBodyBytes: 1_000 }
      Promise.all([readBody(incoming, reading), readBody(incoming, reading)])
        .then(async (bodies) => [...bodies.map((body) => 'bytes' in body && Buffer.from(body.bytes).toString()), await text(incoming)])
        .then(resolve, reject)
        .finally(() => response.end())
    })
    onTestFinished(() => void server.close())
    server.listen(0, '127.0.0.1', () => send({ port: (server.address() as AddressInfo).port, method: 'POST' }).end('tea'))
  })
  expect(await read).toEqual(['tea', 'tea', 'tea'])
})
