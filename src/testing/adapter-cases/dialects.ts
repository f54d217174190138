import assert from 'node:assert/strict'
import { type AdapterCase, bytes, Gate, text } from './adapter-case.js'

const options = { profile: 'stripe' } as const

/** What the profile `stripe` adds to answers that are the handler's own. */
export const dialectCases: AdapterCase[] = [
  {
    name: 'stripe: R1: the first answer has a Request-Id; a replay has another, and tells the first as Original-Request',
    options,
    async run(bench) {
      const [first, again] = [await bench.send(), await bench.send()]
      const [id] = first.lines('request-id')
      assert.match(id ?? '', /^req_\w+$/)
      assert.deepEqual([first.lines('original-request'), first.lines('idempotent-replayed')], [[], []])
      assert.deepEqual([again.lines('original-request'), again.lines('idempotent-replayed')], [[id], ['true']])
      assert.equal(again.lines('request-id').length, 1)
      assert.notEqual(again.lines('request-id')[0], id)
      assert.deepEqual([again.status, again.body, bench.runs()], [first.status, first.body, 1])
    },
  },
  {
    name: 'stripe: R1: so does the one that the handler gives the request',
    options,
    async run(bench) {
      bench.handler = () => ({ status: 200, headers: [['request-id', 'req_own']], body: { json: { ok: true } } })
      const [first, again] = [await bench.send(), await bench.send()]
      assert.deepEqual(first.lines('request-id'), ['req_own'])
      assert.deepEqual(again.lines('original-request'), ['req_own'])
      assert.ok(!again.lines('request-id').includes('req_own'))
    },
  },
  {
    name: 'stripe: D6: a 5xx that is not kept has a Request-Id, too',
    options,
    async run(bench) {
      bench.handler = () => ({ status: 503, headers: [], body: { bytes: bytes('later') } })
      const failed = await bench.send()
      assert.deepEqual([failed.status, failed.lines('request-id').length], [503, 1])
    },
  },
  {
    name: 'stripe: F1, F4, C2: refuses in the words of Stripe, with a Request-Id',
    options,
    async run(bench) {
      const [reached, go] = [new Gate(), new Gate()]
      const { handler } = bench
      bench.handler = async (run) => {
        reached.open()
        await go.opened
        return handler(run)
      }
      const first = bench.send()
      await reached.opened
      const inUse = await bench.send()
      go.open()
      await first
      const refusals = [inUse, await bench.send({ body: '{"item":"coffee"}' }), await bench.send({ path: '/other' })]
      assert.deepEqual(
        refusals.map(({ status, body }) => [status, JSON.parse(text(body)).error.type, JSON.parse(text(body)).error.code]),
        [
          [409, 'invalid_request_error', 'idempotency_key_in_use'],
          [400, 'idempotency_error', 'key_reused'],
          [400, 'idempotency_error', 'key_reused'],
        ],
      )
      for (const { lines } of refusals) {
        assert.deepEqual([lines('request-id').length, lines('content-type')], [1, ['application/json']])
      }
      assert.equal(bench.runs(), 1)
    },
  },
]
