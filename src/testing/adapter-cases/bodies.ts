import assert from 'node:assert/strict'
import { type AdapterCase, type Bench, bytes, eventually, text } from './adapter-case.js'
import { rawConnection, rawHead, rawRequest, type Sent } from './client.js'

async function isReceived(bench: Bench, request: Partial<Sent>, expected: Uint8Array): Promise<void> {
  const first = await bench.send(request)
  assert.equal(first.status, 201)
  assert.deepEqual(Buffer.from(bench.received()), Buffer.from(expected))
  const again = await bench.send(request)
  assert.deepEqual(again.lines('idempotent-replayed'), ['true'])
  assert.deepEqual(again.body, first.body)
}

const octets = { 'content-type': 'application/octet-stream' }

/** Request bodies: read once by the layer, and still available to the handler. */
export const bodyCases: AdapterCase[] = [
  {
    name: 'body: the handler receives JSON byte for byte',
    run: (bench) => isReceived(bench, { body: ' {"id": 9007199254740993,\n"a":1e2}' }, bytes(' {"id": 9007199254740993,\n"a":1e2}')),
  },
  {
    name: 'body: the handler receives bytes that are no text',
    run: (bench) =>
      isReceived(bench, { body: Uint8Array.of(0, 255, 254, 10, 13, 0), headers: octets }, Uint8Array.of(0, 255, 254, 10, 13, 0)),
  },
  {
    name: 'body: the handler receives a large body',
    run: (bench) => isReceived(bench, { body: 'x'.repeat(700_000), headers: octets }, bytes('x'.repeat(700_000))),
  },
  {
    name: 'body: the handler receives a large body of JSON, which takes several turns to compare',
    async run(bench) {
      const lines = Array.from({ length: 30_000 }, (_, line) => ({ line, item: 'tea' }))
      const body = JSON.stringify(lines)
      await isReceived(bench, { body }, bytes(body))
      assert.equal((await bench.send({ body: body.replace('29999', '29998') })).status, 422)
    },
  },
  {
    name: 'body: the handler receives a body that comes in chunks',
    run: (bench) => isReceived(bench, { body: ['{"a"', ':', '1}'] }, bytes('{"a":1}')),
  },
  {
    name: 'body: one that comes byte by byte takes time in proportion to its size',
    async run(bench) {
      const cpuOf = async (length: number, key: string) => {
        const socket = await rawConnection(bench.url)
        const before = process.cpuUsage()
        socket.write(`${rawHead({ path: '/work', tenant: bench.tenant, key })}Transfer-Encoding: chunked\r\n\r\n`)
        socket.write(`1\r\n"\r\n${'1\r\nx\r\n'.repeat(length - 2)}1\r\n"\r\n0\r\n\r\n`)
        await eventually('it is answered', () => socket.received())
        const { user, system } = process.cpuUsage(before)
        assert.match(socket.received(), /^HTTP\/1.1 201/)
        assert.equal(bench.received().length, length)
        socket.destroy()
        return user + system
      }
      await cpuOf(20_000, '"warm"')
      const small = await cpuOf(50_000, '"small"')
      const large = await cpuOf(250_000, '"large"')
      // 5 in proportion, 25 where each byte costs what those before it have cost.
      assert.ok(large < small * 12, `50,000 bytes took ${small} µs of the processor, and 250,000 took ${large}`)
    },
  },
  {
    name: 'body: the handler receives no body where there is none',
    run: (bench) => isReceived(bench, { body: null, headers: {} }, new Uint8Array()),
  },
  {
    name: 'body: the handler of an unprotected request receives its body too',
    async run(bench) {
      await bench.send({ key: null, body: '{"a":1}' })
      assert.equal(text(bench.received()), '{"a":1}')
      await bench.send({ method: 'PUT', body: '{"a":2}' })
      assert.equal(text(bench.received()), '{"a":2}')
    },
  },
  {
    name: 'body: one over the limit is refused before anything runs, announced or not',
    options: { maxBodyBytes: 1_000 },
    async run(bench) {
      const large = 'x'.repeat(600)
      assert.equal((await bench.send({ body: large + large, headers: octets })).status, 413)
      assert.equal((await bench.send({ body: [large, large], headers: octets })).status, 413)
      assert.equal(bench.runs(), 0)
      assert.equal((await bench.send({ body: large, headers: octets })).status, 201)
    },
  },
  {
    name: 'body: half of one runs nothing, and leaves the key free',
    async run(bench) {
      const body = '{"item":"tea"}'
      const socket = await rawConnection(bench.url)
      socket.write(rawRequest({ path: '/work', tenant: bench.tenant, key: '"key-1"', body: body.slice(0, 7), length: body.length }))
      // Another request on another connection: its answer proves that the first half has arrived.
      assert.equal((await bench.send({ path: '/other' })).status, 201)
      socket.resetAndDestroy()
      assert.equal((await bench.send({ path: '/another' })).status, 201)
      assert.equal(bench.runs(), 2)
      assert.equal((await bench.send({ body })).status, 201)
      assert.equal(bench.runs(), 3)
    },
  },
]
