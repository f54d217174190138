import assert from 'node:assert/strict'
import { type AdapterCase, type Bench, bytes, eventually, Gate, inPieces, text } from './adapter-case.js'
import { rawConnection, rawRequest } from './client.js'

const body = '{"item":"tea"}'

/** Sends a request and disconnects, cleanly or not, as soon as the handler runs. */
async function hangUp(bench: Bench, how: 'end' | 'reset'): Promise<void> {
  const socket = await rawConnection(bench.url)
  socket.write(rawRequest({ path: '/work', tenant: bench.tenant, key: '"key-1"', body }))
  await eventually('the handler runs', () => bench.runs() === 1)
  if (how === 'end') socket.destroy()
  else socket.resetAndDestroy()
  // A round trip of another client, so that the server has noticed.
  await bench.send({ method: 'GET', path: '/elsewhere', body: null, headers: {} })
}

async function isStoredAndReplayed(bench: Bench, expected: string): Promise<void> {
  await eventually('the answer is stored', async () => (await bench.keyState()) === 'complete')
  const again = await bench.send()
  assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
  assert.equal(text(again.body), expected)
}

/** Only the request of this case; others pass. */
function handle(bench: Bench, answer: Bench['handler']): void {
  const { handler } = bench
  bench.handler = (run) => (run === 1 ? answer(run) : handler(run))
}

export const lostClientCases: AdapterCase[] = [
  ...(['end', 'reset'] as const).flatMap((how): AdapterCase[] => [
    {
      name: `D3: the client goes half-way (${how}): the work goes on, the answer is stored, a retry replays it`,
      async run(bench) {
        const gate = new Gate()
        handle(bench, async () => {
          await gate.opened
          return { status: 201, headers: [['content-type', 'text/plain']], body: { bytes: bytes('done') } }
        })
        await hangUp(bench, how)
        gate.open()
        await isStoredAndReplayed(bench, 'done')
      },
    },
    {
      name: `D3: the client goes in the middle of a stream (${how}): it comes to its end, and a retry replays it`,
      async run(bench) {
        const gate = new Gate()
        const pieces = () => inPieces(bytes('one '), gate.opened, bytes('two '), bytes('three'))
        handle(bench, () => ({ status: 200, headers: [['content-type', 'text/plain']], body: { pieces: pieces() } }))
        await hangUp(bench, how)
        gate.open()
        await isStoredAndReplayed(bench, 'one two three')
      },
    },
  ]),
  {
    name: 'D3: the client goes in the middle of a stream over the cap: it runs once',
    maxAnswerBytes: 1_000,
    async run(bench) {
      const gate = new Gate()
      const piece = bytes('x'.repeat(600))
      const pieces = () => inPieces(piece, piece, piece, gate.opened, ...Array(400).fill(bytes('x'.repeat(10_000))))
      handle(bench, () => ({ status: 200, headers: [], body: { pieces: pieces() } }))
      await hangUp(bench, 'reset')
      gate.open()
      await eventually('the answer is stored', async () => (await bench.keyState()) === 'complete')
      assert.equal((await bench.send()).status, 410)
    },
  },
  {
    name: 'a client that pipelines a key three times gets three answers and one run',
    options: { whenInProgress: 'wait', wait: '60s' },
    async run(bench) {
      const socket = await rawConnection(bench.url)
      const one = rawRequest({ path: '/work', tenant: bench.tenant, key: '"key-1"', body })
      socket.write(one + one + one)
      await eventually('three answers came', () => socket.received().split('HTTP/1.1 201').length === 4)
      assert.equal(bench.runs(), 1)
      // They run concurrently: any of them may be the one.
      assert.equal(socket.received().split(/idempotent-replayed: true/i).length, 3)
      socket.destroy()
    },
  },
  {
    name: 'a client that sends its request and hangs up at once runs it once, with its body',
    async run(bench) {
      const socket = await rawConnection(bench.url)
      socket.write(rawRequest({ path: '/work', tenant: bench.tenant, key: '"key-1"', body }))
      socket.end()
      const answered = await eventually('the key is free', async () => {
        const answer = await bench.send()
        return answer.status === 409 ? undefined : answer
      })
      assert.equal(answered.status, 201)
      assert.equal(bench.runs(), 1)
      assert.equal(text(bench.received()), body)
    },
  },
]
