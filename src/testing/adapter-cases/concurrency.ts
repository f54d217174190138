import assert from 'node:assert/strict'
import { type AdapterCase, type Bench, eventually, Gate, text } from './adapter-case.js'

/** Starts a request whose handler waits at the gate. */
async function startSlow(bench: Bench): Promise<{ first: ReturnType<Bench['send']>; gate: Gate }> {
  const gate = new Gate()
  const { handler } = bench
  bench.handler = async (run) => {
    await gate.opened
    return handler(run)
  }
  const first = bench.send()
  await eventually('the handler runs', () => bench.runs() === 1)
  return { first, gate }
}

/** Requests whose key is in progress. */
export const concurrencyCases: AdapterCase[] = [
  {
    name: 'C1, C2: tells a request in the middle of another one to come back, and when',
    async run(bench) {
      const { first, gate } = await startSlow(bench)
      const refused = await bench.send()
      assert.deepEqual([refused.status, JSON.parse(text(refused.body)).code], [409, 'key_in_use'])
      assert.ok(Number(refused.lines('retry-after')[0]) >= 1)
      gate.open()
      const { body } = await first
      const again = await bench.send()
      assert.deepEqual([again.body, bench.runs()], [body, 1])
    },
  },
  {
    name: 'C1: twenty at once: one runs, nobody gets a 500',
    async run(bench) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => bench.send()))
      assert.equal(bench.runs(), 1)
      assert.ok(answers.every(({ status }) => status === 201 || status === 409))
      assert.equal(answers.filter((answer) => answer.status === 201 && answer.lines('idempotent-replayed').length === 0).length, 1)
    },
  },
  {
    name: 'C1: wait: the others get the answer of the one that runs',
    options: { whenInProgress: 'wait', wait: '60s' },
    async run(bench) {
      const { first, gate } = await startSlow(bench)
      const others = Array.from({ length: 5 }, () => bench.send())
      gate.open()
      const { body } = await first
      for (const other of await Promise.all(others)) {
        assert.deepEqual([other.status, other.body, other.lines('idempotent-replayed')], [201, body, ['true']])
      }
      assert.equal(bench.runs(), 1)
    },
  },
  {
    name: 'C1: accepted: the others get a 202',
    options: { whenInProgress: 'accepted' },
    async run(bench) {
      const { first, gate } = await startSlow(bench)
      const other = await bench.send()
      assert.equal(other.status, 202)
      assert.ok(Number(other.lines('retry-after')[0]) >= 1)
      gate.open()
      assert.equal((await first).status, 201)
    },
  },
  {
    name: 'F3: refuses another body in the middle of a request as another one, not as a duplicate',
    async run(bench) {
      const { first, gate } = await startSlow(bench)
      assert.equal((await bench.send({ body: '{"item":"coffee"}' })).status, 422)
      gate.open()
      assert.equal((await first).status, 201)
    },
  },
]
