import assert from 'node:assert/strict'
import { type AdapterCase, type Bench, text } from './adapter-case.js'
import type { Answered } from './client.js'

const order = (quantity: unknown) => ({ path: '/async', body: JSON.stringify({ quantity }) })

/** Gets the state of an accepted request, as a client that follows `Location`. */
const look = (bench: Bench, path: string, method = 'GET', tenant = bench.tenant) =>
  bench.send({ method, path, tenant, key: null, headers: {}, body: null })

const located = (accepted: Answered) => accepted.lines('location')[0] as string
const json = ({ body }: Answered) => JSON.parse(text(body))

/** `serve()` with `respond: 'async'` and `status()`, where the store has operations. */
export const asyncCases: AdapterCase[] = [
  {
    name: 'async: accepts a request with 202, a Location and a Retry-After, and runs nothing; duplicates hear the same',
    async run(bench) {
      const first = await bench.send(order(1))
      assert.deepEqual([first.status, first.lines('retry-after'), json(first).state], [202, ['3'], 'pending'])
      assert.deepEqual(first.lines('location'), [`/async/${json(first).id}`])
      const again = await bench.send(order(1))
      assert.deepEqual([again.status, again.lines('location'), again.body], [202, first.lines('location'), first.body])
      assert.deepEqual([first.lines('idempotent-replayed'), again.lines('idempotent-replayed'), bench.runs()], [[], [], 0])
    },
  },
  {
    name: 'async: the status resource tells the state, then the answer; so does a retry',
    async run(bench) {
      const location = located(await bench.send(order(1)))
      const waiting = await look(bench, location)
      assert.deepEqual([waiting.status, waiting.lines('cache-control'), waiting.lines('retry-after')], [200, ['no-store'], ['1']])
      assert.deepEqual([json(waiting).state, location.endsWith(json(waiting).id)], ['pending', true])
      await bench.carryOut()
      for (const done of [await look(bench, location), await bench.send(order(1))]) {
        assert.deepEqual([done.status, json(done)], [201, { number: 1, quantity: 1 }])
        assert.deepEqual([done.lines('location'), done.lines('idempotent-replayed')], [['/orders/1'], ['true']])
      }
      assert.equal(bench.runs(), 1)
    },
  },
  {
    name: 'async: HEAD is GET without the body',
    async run(bench) {
      const location = located(await bench.send(order(1)))
      for (const status of [200, 201]) {
        const [whole, head] = [await look(bench, location), await look(bench, location, 'HEAD')]
        assert.deepEqual([whole.status, head.status, head.body.length], [status, status, 0])
        for (const name of ['content-type', 'cache-control', 'retry-after', 'location', 'idempotent-replayed']) {
          assert.deepEqual(head.lines(name), whole.lines(name), name)
        }
        await bench.carryOut()
      }
    },
  },
  {
    name: 'async: knows nothing of ids that nobody has, of what is no id, and of those of others',
    async run(bench) {
      const location = located(await bench.send(order(1)))
      const unknown = ['/async/8e03978e-40d5-83dd-bc93-6894a57f9324', '/async/x', '/async/%00', `${location}0`]
      const answers = [
        ...(await Promise.all(unknown.map((path) => look(bench, path)))),
        await look(bench, location, 'GET', 'somebody else'),
      ]
      for (const answer of answers) {
        assert.deepEqual([answer.status, json(answer).code, answer.lines('cache-control')], [404, 'operation_unknown', ['no-store']])
        assert.deepEqual(answer.body, answers[0]?.body)
      }
      assert.equal((await look(bench, `${location}?expand=all`)).status, 200)
    },
  },
  {
    name: 'async: refuses what serve() refuses, before anything is accepted',
    async run(bench) {
      assert.equal((await bench.send({ ...order(1), key: null })).status, 400)
      assert.deepEqual(json(await bench.send(order('many'))).code, 'input_invalid')
      assert.equal((await bench.send(order(1))).status, 202)
      assert.equal((await bench.send(order(2))).status, 422)
    },
  },
  {
    name: 'async: an attempt that fails is not the end: the next one resumes',
    async run(bench) {
      const location = located(await bench.send(order(13)))
      await assert.rejects(bench.carryOut(), /unlucky/)
      const waiting = await look(bench, location)
      assert.deepEqual([waiting.status, json(waiting).state, json(waiting).attempt], [200, 'pending', 1])
      await bench.carryOut()
      assert.deepEqual(json(await look(bench, location)), { number: 1, quantity: 13 })
      assert.equal(bench.runs(), 1)
    },
  },
  {
    name: 'async: D5: says when to come back while the store is down',
    async run(bench) {
      const location = located(await bench.send(order(1)))
      bench.breakStore(true)
      for (const refused of [await bench.send(order(1)), await look(bench, location)]) {
        assert.equal(refused.status, 503)
        assert.ok(Number(refused.lines('retry-after')[0]) >= 1)
      }
      bench.breakStore(false)
      assert.equal((await look(bench, location)).status, 200)
    },
  },
]
