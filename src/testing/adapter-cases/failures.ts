import assert from 'node:assert/strict'
import { OncekeyError } from '../../core/errors.js'
import { type AdapterCase, type Bench, bytes, text } from './adapter-case.js'

const overloaded = { status: 503, headers: [['content-type', 'text/plain']], body: { bytes: bytes('the provider is down') } } as const

function failOnce(bench: Bench, how: 'answers' | 'throws'): void {
  const { handler } = bench
  bench.handler = (run) => {
    if (run > 1) return handler(run)
    if (how === 'answers') return overloaded
    throw new Error('the handler fails, as it is told to')
  }
}

/** Failures of handlers and of the store. */
export const failureCases: AdapterCase[] = [
  {
    name: 'O1: stores and replays a 4xx of the handler',
    async run(bench) {
      bench.handler = (run) => ({ status: 402, headers: [], body: { json: { error: 'card_declined', run } } })
      const first = await bench.send()
      const again = await bench.send()
      assert.deepEqual([first.status, again.status, bench.runs()], [402, 402, 1])
      assert.deepEqual(again.body, first.body)
    },
  },
  {
    name: 'D6: rerun: a 5xx reaches the client, and a retry runs again',
    async run(bench) {
      failOnce(bench, 'answers')
      const first = await bench.send()
      assert.deepEqual([first.status, text(first.body)], [503, 'the provider is down'])
      assert.deepEqual([(await bench.send()).status, bench.runs()], [201, 2])
    },
  },
  {
    name: 'D6: rerun: an error that is thrown becomes what the framework makes of it, and a retry runs again',
    async run(bench) {
      failOnce(bench, 'throws')
      assert.equal((await bench.send()).status, 500)
      assert.deepEqual([(await bench.send()).status, bench.runs()], [201, 2])
    },
  },
  {
    name: 'D6: store: a 5xx is replayed',
    options: { afterFailure: 'store' },
    async run(bench) {
      failOnce(bench, 'answers')
      const first = await bench.send()
      const again = await bench.send()
      assert.deepEqual([again.status, text(again.body), bench.runs()], [503, 'the provider is down', 1])
      assert.deepEqual(first.body, again.body)
      assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
    },
  },
  {
    name: 'D6: store: an error that is thrown is replayed as an error',
    options: { afterFailure: 'store' },
    async run(bench) {
      failOnce(bench, 'throws')
      assert.equal((await bench.send()).status, 500)
      const again = await bench.send()
      assert.deepEqual([again.status, bench.runs()], [500, 1])
      assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
    },
  },
  {
    name: 'D6: park: a failure reaches the client, and a retry hears that the outcome is unknown',
    options: { afterFailure: 'park' },
    async run(bench) {
      failOnce(bench, 'answers')
      assert.equal((await bench.send()).status, 503)
      const again = await bench.send()
      assert.deepEqual([again.status, JSON.parse(text(again.body)).code, bench.runs()], [500, 'outcome_unknown', 1])
      assert.equal(await bench.keyState(), 'parked')
    },
  },
  {
    name: 'D5: runs nothing while the store is down, and says when to come back',
    async run(bench) {
      bench.breakStore(true)
      const refused = await bench.send()
      assert.deepEqual([refused.status, bench.runs()], [503, 0])
      assert.ok(Number(refused.lines('retry-after')[0]) >= 1)
      assert.equal(JSON.parse(text(refused.body)).code, 'store_unavailable')
      bench.breakStore(false)
      assert.deepEqual([(await bench.send()).status, bench.runs()], [201, 1])
    },
  },
  {
    name: 'D7: a store that fails when the answer is to be stored: the client gets it all the same, and nothing runs again meanwhile',
    async run(bench) {
      bench.beforeFinish(() => Promise.reject(new OncekeyError('store_failed', 'The answer cannot be stored.')))
      const first = await bench.send()
      assert.deepEqual([first.status, JSON.parse(text(first.body)), first.lines('location')], [201, { run: 1 }, ['/orders/1']])
      assert.deepEqual([(await bench.send()).status, bench.runs()], [409, 1])
    },
  },
  {
    name: 'D5: runs unprotected while the store is down, where that was chosen',
    options: { failOpen: true },
    async run(bench) {
      bench.breakStore(true)
      assert.deepEqual([(await bench.send()).status, bench.runs()], [201, 1])
      assert.equal(text(bench.received()), '{"item":"tea"}')
    },
  },
]
