// What the page says of a probe, through proxies that pass the key on, drop it or send it twice.
import { createServer, request as send } from 'node:http'
import express from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { serve } from '../../src/adapters/express.js'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { listen } from '../adapters/listen.js'
import { useDatabase } from '../support/postgres/database.js'
import { read } from './pages.js'

const database = useDatabase()

/** The header lines that a proxy sends on, of those that it got: names and values in turn. */
type Headers = (lines: string[]) => string[]

const proxies: Record<string, [code: string, headers: Headers]> = {
  'passes the key on': ['input_invalid', (lines) => lines],
  'drops it': ['key_missing', (lines) => lines.filter((_, at) => lines[at - (at % 2)]?.toLowerCase() !== 'idempotency-key')],
  'sends it twice': ['key_invalid', (lines) => [...lines, 'Idempotency-Key', 'probe-1']],
}

test.each(Object.entries(proxies))('the probe tells a proxy that %s', async (_, [code, headers]) => {
  let runs = 0
  const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
  const createOrder = once.operation('orders.create', { input: z.object({ item: z.string() }) }, async () => reply(201, { run: ++runs }))
  const service = await listen(express().post('/orders', serve(createOrder, { tenant: 'single' })))
  onTestFinished(service.close)
  const proxy = await listen(
    createServer((request, response) => {
      const onward = send(service.url + request.url, { method: request.method, headers: headers(request.rawHeaders) }, (answer) => {
        response.writeHead(answer.statusCode as number, answer.headers)
        answer.pipe(response)
      })
      request.pipe(onward)
    }),
  )
  onTestFinished(proxy.close)

  const [, , key, body] = /curl -s \S+ -H '(.*?)' -H 'Idempotency-Key: (.*?)' -d '(.*?)'/.exec(read('docs/guide/proxies.md')) ?? []
  const post = (text: string) =>
    fetch(`${proxy.url}/orders`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': key as string },
      body: text,
    })
  expect(await (await post(body as string)).json()).toMatchObject({ code })
  expect(runs).toBe(0)
  expect(read('docs/guide/proxies.md')).toContain(`| [\`${code}\`](../problems/${code}.md) |`)
  // The key is not used up.
  if (code === 'input_invalid') expect((await post('{"item":"tea"}')).status).toBe(201)
})
