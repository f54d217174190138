import assert from 'node:assert/strict'
import type { HandlerAnswer } from '../exercise-adapter.js'
import { type AdapterCase, type Bench, bytes, Gate, inPieces, text } from './adapter-case.js'
import type { Answered } from './client.js'

/** Runs a request twice, and compares all that must be equal. */
async function replaysAlike(bench: Bench, answer: HandlerAnswer | (() => HandlerAnswer), names: readonly string[] = []): Promise<Answered> {
  bench.handler = typeof answer === 'function' ? answer : () => answer
  const first = await bench.send()
  const again = await bench.send()
  assert.equal(bench.runs(), 1)
  assert.equal(again.status, first.status)
  assert.deepEqual(again.body, first.body)
  for (const name of ['content-type', ...names]) assert.deepEqual(again.lines(name), first.lines(name), name)
  assert.deepEqual(first.lines('idempotent-replayed'), [])
  assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
  return first
}

const gzipped = Buffer.from('H4sIAAAAAAAAAytJTVQogWAAqj1llQsAAAA=', 'base64')

const textPlain = [['content-type', 'text/plain']] as const

/** Answers: stored in full, and replayed unchanged. */
export const replayCases: AdapterCase[] = [
  {
    name: 'R1: replays status, body, Location, ETag, custom and repeated headers',
    async run(bench) {
      const headers = [
        ['location', '/orders/1'],
        ['etag', '"v1"'],
        ['x-custom', 'kept'],
        ['link', '</a>; rel="a"'],
        ['link', '</b>; rel="b"'],
      ] as const
      const first = await replaysAlike(bench, { status: 201, headers, body: { json: { ok: true } } }, [
        'location',
        'etag',
        'x-custom',
        'link',
      ])
      assert.equal(first.status, 201)
      assert.deepEqual(JSON.parse(text(first.body)), { ok: true })
      assert.deepEqual(first.lines('x-custom'), ['kept'])
      assert.equal(first.lines('link').join(', '), '</a>; rel="a", </b>; rel="b"')
    },
  },
  {
    name: 'R2: does not replay cookies, dates, request ids and what belongs to the connection',
    async run(bench) {
      bench.handler = () => ({
        status: 200,
        headers: [
          ['set-cookie', 'a=1'],
          ['set-cookie', 'b=2'],
          ['x-request-id', 'first'],
          ['date', 'Tue, 01 Jan 2019 00:00:00 GMT'],
          ...textPlain,
        ],
        body: { bytes: bytes('hello') },
      })
      const first = await bench.send()
      assert.deepEqual(first.lines('set-cookie'), ['a=1', 'b=2'])
      assert.deepEqual(first.lines('x-request-id'), ['first'])
      const again = await bench.send()
      assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
      assert.deepEqual(again.lines('set-cookie'), [])
      assert.deepEqual(again.lines('x-request-id'), [])
      assert.ok(!again.lines('date').some((date) => date.includes('2019')))
    },
  },
  {
    name: 'R4: replays a 204',
    async run(bench) {
      const first = await replaysAlike(bench, { status: 204, headers: [['x-custom', 'kept']], body: { none: true } }, ['x-custom'])
      assert.equal(first.status, 204)
      assert.equal(first.body.length, 0)
    },
  },
  {
    name: 'R4: replays a 303',
    async run(bench) {
      const first = await replaysAlike(bench, { status: 303, headers: [['location', '/orders/1']], body: { none: true } }, ['location'])
      assert.deepEqual([first.status, first.lines('location')], [303, ['/orders/1']])
    },
  },
  {
    name: 'R4: replays bytes that are no text',
    async run(bench) {
      const body = Uint8Array.of(0, 255, 128, 200, 10)
      const first = await replaysAlike(bench, { status: 200, headers: [['content-type', 'image/png']], body: { bytes: body } })
      assert.deepEqual([...first.body], [...body])
      assert.deepEqual(first.lines('content-type'), ['image/png'])
    },
  },
  {
    name: 'R4: replays what the handler compressed, whatever the client accepts',
    async run(bench) {
      const headers = [['content-encoding', 'gzip'], ...textPlain] as const
      const first = await replaysAlike(bench, { status: 200, headers, body: { bytes: gzipped } }, ['content-encoding'])
      assert.deepEqual([first.lines('content-encoding'), first.body], [['gzip'], gzipped])
    },
  },
  {
    name: 'R4: replays a stream',
    async run(bench) {
      const stream = () => inPieces(bytes('one '), bytes('two '), bytes('three'))
      const first = await replaysAlike(bench, () => ({ status: 200, headers: textPlain, body: { pieces: stream() } }))
      assert.equal(text(first.body), 'one two three')
    },
  },
  {
    name: 'R4: replays an empty stream',
    run: async (bench) => {
      const first = await replaysAlike(bench, () => ({ status: 200, headers: textPlain, body: { pieces: inPieces() } }))
      assert.equal(first.body.length, 0)
    },
  },
  {
    name: 'R5: an answer over the cap reaches the first caller whole, runs once, and a replay says that it was not kept',
    maxAnswerBytes: 1_000,
    async run(bench) {
      bench.handler = () => ({ status: 201, headers: [['location', '/orders/1']], body: { bytes: bytes('x'.repeat(2_000)) } })
      assert.equal((await bench.send()).body.length, 2_000)
      await saysThatItWasNotKept(bench)
    },
  },
  {
    name: 'R5: so does a stream over the cap',
    maxAnswerBytes: 1_000,
    async run(bench) {
      const piece = bytes('x'.repeat(300))
      bench.handler = () => ({ status: 201, headers: [['location', '/orders/1']], body: { pieces: inPieces(...Array(20).fill(piece)) } })
      assert.equal((await bench.send()).body.length, 6_000)
      await saysThatItWasNotKept(bench)
    },
  },
  {
    name: 'R6: the last byte of an answer leaves only after it is stored',
    async run(bench) {
      await staysOpenUntilStored(bench, () => ({ json: { ok: true } }))
    },
  },
  {
    name: 'R6: so does the last byte of a stream over the cap',
    maxAnswerBytes: 1_000,
    async run(bench) {
      await staysOpenUntilStored(bench, () => ({ pieces: inPieces(...Array(20).fill(bytes('x'.repeat(300)))) }))
    },
  },
]

async function saysThatItWasNotKept(bench: Bench): Promise<void> {
  const again = await bench.send()
  assert.equal(bench.runs(), 1)
  assert.equal(again.status, 410)
  const { code, originalStatus } = JSON.parse(text(again.body))
  assert.deepEqual([code, originalStatus], ['answer_not_kept', 201])
  assert.deepEqual(again.lines('location'), ['/orders/1'])
  assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
}

async function staysOpenUntilStored(bench: Bench, body: () => HandlerAnswer['body']): Promise<void> {
  const reached = new Gate()
  const store = new Gate()
  bench.handler = () => ({ status: 200, headers: [], body: body() })
  bench.beforeFinish(async () => {
    reached.open()
    await store.opened
  })
  let complete = false
  const first = bench.send().finally(() => {
    complete = true
  })
  await reached.opened
  // A round trip of another client: everything written before has arrived.
  assert.equal((await bench.send({ path: '/elsewhere', method: 'GET', body: null, headers: {} })).status, 200)
  assert.equal(complete, false)
  store.open()
  assert.equal((await first).status, 200)
}
