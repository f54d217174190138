// However a body comes, others have their turn meanwhile. Measured in CPU time: a busy machine matters less, but its caches are cold.
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { openFetch } from './fetch-bench.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'
const octets = { 'content-type': 'application/octet-stream' }

/**
 * 12,000 pieces of a byte take 25 to 90 ms of CPU by machine and Node; without a pause 500,000 take seconds. Large pieces take less than 50 ms on a
 * machine that does nothing else.
 */
const mostMs = (pieceSize: number) => (long && pieceSize > 1 ? 50 : 200)

/** A stream whose pieces are all there at once. */
function streamOf(size: number, pieceSize: number): ReadableStream<Uint8Array> {
  let left = size
  return new ReadableStream(
    {
      pull(controller) {
        if (left === 0) return controller.close()
        const piece = new Uint8Array(Math.min(left, pieceSize)).fill(120)
        left -= piece.length
        controller.enqueue(piece)
      },
    },
    { highWaterMark: 0 },
  )
}

/** The most CPU time between two turns of the event loop, in milliseconds. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let longest = 0
  let isOver = false
  let before = process.cpuUsage()
  const look = () => {
    const { user, system } = process.cpuUsage(before)
    longest = Math.max(longest, (user + system) / 1000)
    before = process.cpuUsage()
    if (!isOver) setImmediate(look)
  }
  setImmediate(look)
  await work()
  isOver = true
  return longest
}

describe.each([
  ['1 byte', long ? 10_000_000 : 500_000, 1],
  ['64 KiB', 10_000_000, 65_536],
])('pieces of %s', (_, size, pieceSize) => {
  test('a request body leaves the event loop to others in between', async () => {
    const { call, request, runs } = await openFetch(database, async (given) => new Response(String((await given.arrayBuffer()).byteLength)))
    const send = async (length: number) =>
      (
        await call(
          request({ body: streamOf(length, pieceSize), duplex: 'half', headers: { ...octets, 'idempotency-key': String(length) } }),
        )
      ).text()
    await send(10_000)
    expect(await longestTurn(async () => expect(await send(size)).toBe(String(size)))).toBeLessThan(mostMs(pieceSize))
    expect(runs()).toBe(2)
  })

  test('a response body leaves the event loop to others in between', async () => {
    const { call, request } = await openFetch(
      database,
      (given) => new Response(streamOf(Number(given.headers.get('idempotency-key')), pieceSize)),
    )
    const send = async (length: number) => (await call(request({ headers: { 'idempotency-key': String(length) } }))).arrayBuffer()
    await send(10_000)
    const kept = Math.min(size, 8_000_000)
    expect(await longestTurn(async () => expect((await send(kept)).byteLength).toBe(kept))).toBeLessThan(mostMs(pieceSize))
  })
})
