import { describe, expect, test } from 'vitest'
import { knownNetwork, post, url } from '../../test/clients/known-network.js'
import { packed, unpacked } from './pending-request.js'
import { memoryStorage } from './storages/memory-storage.js'

const bytesOf = (length: number) => Uint8Array.from({ length }, (_, index) => (index * 2_654_435_761) >>> 13)

describe('a body of bytes', () => {
  test.each([0, 1, 2, 3, 6_143, 6_144, 6_145, 6_146, 6_147, 100_000])('of %d survives a storage of texts', (length) => {
    const bytes = bytesOf(length)
    const { body, base64 } = JSON.parse(JSON.stringify(packed(bytes)))
    expect([base64, body]).toEqual([true, Buffer.from(bytes).toString('base64')])
    expect(unpacked({ body, base64 })).toEqual(bytes)
  })

  test('stays as it is in memory, and is base64 in other storages', async () => {
    const body = Uint8Array.of(0, 255)
    for (const [keepsBytes, kept] of [
      [true, { body }],
      [undefined, { body: 'AP8=', base64: true }],
    ] as const) {
      const { send, sent } = knownNetwork([503, 201], { maxAttempts: 1, storage: { ...memoryStorage(), keepsBytes } })
      await send(url, { ...post, body })
      await send.resume()
      expect(sent.map(({ kept }) => kept)).toMatchObject([[kept], [kept]])
      expect(sent.map(({ body }) => body)).toEqual([body, body])
    }
  })

  test('is not turned into text by default: memory keeps bytes', async () => {
    const { send } = knownNetwork([503], { maxAttempts: 1 })
    await send(url, { ...post, body: Uint8Array.of(0, 255) })
    expect(await send.pending()).toMatchObject([{ body: Uint8Array.of(0, 255) }])
  })

  test('of 10 MB costs little CPU', () => {
    const bytes = bytesOf(10_000_000)
    const costs = [1, 2, 3].map(() => {
      const start = process.cpuUsage()
      unpacked(packed(bytes))
      const { user, system } = process.cpuUsage(start)
      return (user + system) / 1_000
    })
    // 80 ms in blocks, 2 s byte by byte.
    expect(Math.min(...costs)).toBeLessThan(500)
  })
})
