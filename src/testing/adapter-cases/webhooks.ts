import assert from 'node:assert/strict'
import { type AdapterCase, type Bench, bytes, text } from './adapter-case.js'
import type { Answered } from './client.js'
import { signatureOf } from './signature.js'

/** Found in raw bytes only: white space, an escape, a number that a parser would rewrite. */
const body = '{ "paid" : "\\u00e9",\r\n "cents": 1.0 }'

/** A delivery as its sender makes it: no key, no tenant, and a signature over the bytes of `signed`. */
async function deliver(bench: Bench, { id = 'message-1', sent = body, signed = '' } = {}): Promise<Answered> {
  const headers = {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-signature': await signatureOf(id, bytes(signed || sent)),
  }
  return bench.send({ path: '/webhook', key: null, tenant: '', headers, body: sent })
}

/** `webhook()`, where the store has operations. */
export const webhookCases: AdapterCase[] = [
  {
    name: 'webhook: does the work of a message once, however often it is delivered',
    async run(bench) {
      const first = await deliver(bench)
      const again = await Promise.all([deliver(bench), deliver(bench)])
      assert.deepEqual([first.status, ...again.map(({ status }) => status)], [204, 204, 204])
      assert.deepEqual(
        [first, ...again].map(({ lines }) => lines('idempotent-replayed')),
        [[], ['true'], ['true']],
      )
      assert.equal((await deliver(bench, { id: 'message-2' })).status, 204)
      assert.equal(bench.runs(), 2)
    },
  },
  {
    name: 'webhook: refuses bytes that were not signed, to the last space, before anything is claimed',
    async run(bench) {
      for (const signed of [JSON.stringify(JSON.parse(body)), `${body} `]) {
        const refused = await deliver(bench, { signed })
        assert.deepEqual([refused.status, JSON.parse(text(refused.body)).code], [400, 'signature_invalid'])
      }
      assert.equal(bench.runs(), 0)
      const honest = await deliver(bench)
      assert.deepEqual([honest.status, honest.lines('idempotent-replayed'), bench.runs()], [204, [], 1])
    },
  },
  {
    name: 'webhook: O2: work that throws is not stored, and runs when the message comes again',
    async run(bench) {
      const unlucky = { sent: '"unlucky"' }
      assert.equal((await deliver(bench, unlucky)).status, 500)
      const again = await deliver(bench, unlucky)
      assert.deepEqual([again.status, again.lines('idempotent-replayed'), bench.runs()], [204, [], 2])
    },
  },
]
