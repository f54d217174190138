import assert from 'node:assert/strict'
import { type AdapterCase, text } from './adapter-case.js'

const order = (quantity: unknown) => ({ path: '/operation', body: JSON.stringify({ quantity }) })

/** `serve()`, where the store has operations. */
export const operationCases: AdapterCase[] = [
  {
    name: 'serve: runs an operation once, and replays its answer',
    async run(bench) {
      const first = await bench.send(order(1))
      const again = await bench.send(order(1))
      assert.deepEqual(
        [first.status, first.lines('location'), JSON.parse(text(first.body))],
        [201, ['/orders/1'], { number: 1, quantity: 1 }],
      )
      assert.deepEqual([again.status, again.lines('location'), again.body], [201, ['/orders/1'], first.body])
      assert.deepEqual([first.lines('idempotent-replayed'), again.lines('idempotent-replayed')], [[], ['true']])
      assert.equal(bench.runs(), 1)
    },
  },
  {
    name: 'serve: K6: insists on a key',
    async run(bench) {
      const refused = await bench.send({ ...order(1), key: null })
      assert.deepEqual([refused.status, JSON.parse(text(refused.body)).code, bench.runs()], [400, 'key_missing', 0])
    },
  },
  {
    name: 'serve: F1: refuses another input under a used key',
    async run(bench) {
      await bench.send(order(1))
      assert.equal((await bench.send(order(2))).status, 422)
    },
  },
  {
    name: 'serve: O2: an error is not stored: a retry resumes',
    async run(bench) {
      assert.equal((await bench.send(order(13))).status, 500)
      const again = await bench.send(order(13))
      assert.deepEqual([again.status, JSON.parse(text(again.body))], [201, { number: 1, quantity: 13 }])
      assert.equal(bench.runs(), 1)
    },
  },
  {
    name: 'serve: O4: input that does not fit runs nothing, and the corrected one runs under the same key',
    async run(bench) {
      const refused = await bench.send(order('many'))
      assert.deepEqual([refused.status, bench.runs()], [400, 0])
      const { code, issues } = JSON.parse(text(refused.body))
      assert.deepEqual([code, issues], ['input_invalid', [{ message: 'quantity is a number', path: ['quantity'] }]])
      assert.equal((await bench.send({ path: '/operation', body: '{"quantity":' })).status, 400)
      assert.equal((await bench.send(order(1))).status, 201)
    },
  },
  {
    name: 'serve: D5: says when to come back while the store is down',
    async run(bench) {
      bench.breakStore(true)
      const refused = await bench.send(order(1))
      assert.deepEqual([refused.status, bench.runs()], [503, 0])
      assert.ok(Number(refused.lines('retry-after')[0]) >= 1)
    },
  },
]
