import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { reply } from '../../../core/answer.js'
import { keyRing } from '../../../core/key-ring.js'
import { type Entry, packEntry, unpackEntry } from './entry.js'

const older = { id: 'older', key: randomBytes(32) }
const newer = { id: 'newer', key: randomBytes(32) }
const foreign = { id: 'older', key: randomBytes(32) }
const ring = keyRing({ keys: [newer, older] })
const ref = { tenant: 'acme', scope: 'orders.create', key: 'order-1' }
const allBytes = Uint8Array.from({ length: 256 }, (_, index) => index)

const entries: Record<string, Entry> = {
  'an answer': {
    kind: 'finished',
    until: 123,
    incarnation: 'i',
    state: 'complete',
    fingerprint: allBytes,
    answer: reply(201, allBytes, [
      ['link', 'a'],
      ['link', 'caf\u00e9'],
    ]),
  },
  'an answer without its body': {
    kind: 'finished',
    until: 123,
    incarnation: 'i',
    state: 'failed',
    fingerprint: null,
    answer: { ...reply(200), omittedBytes: 7 },
  },
  'work under way': { kind: 'held', until: 123, incarnation: 'i', owner: 'o', fingerprint: null },
}

describe.each(Object.entries(entries))('%s', (_, entry) => {
  const packed = packEntry(ring, ref, entry)

  test('comes back as it was, also in a slice of something larger', () => {
    expect(unpackEntry(ring, ref, packed)).toEqual(entry)
    const larger = Buffer.concat([Buffer.from('before'), packed, Buffer.from('after')])
    expect(unpackEntry(ring, ref, larger.subarray(6, 6 + packed.length))).toEqual(entry)
  })

  test('is nothing with any byte changed, cut off or added', () => {
    for (let at = 0; at < packed.length; at += 1) {
      const changed = Buffer.from(packed)
      changed[at] = (changed[at] as number) ^ 1
      expect(unpackEntry(ring, ref, changed)).toBeUndefined()
      expect(unpackEntry(ring, ref, packed.subarray(0, at))).toBeUndefined()
    }
    expect(unpackEntry(ring, ref, Buffer.concat([packed, Buffer.of(0)]))).toBeUndefined()
  })

  test("is nothing as another key's", () => {
    const others = [{ tenant: 'acme2' }, { scope: 'orders.cancel' }, { key: 'order-2' }, { tenant: 'acmeo', scope: 'rders.create' }]
    for (const other of others) expect(unpackEntry(ring, { ...ref, ...other }, packed)).toBeUndefined()
  })

  test('is proven by the secret it was signed with, for as long as that is in the ring', () => {
    const before = packEntry(keyRing({ keys: [older] }), ref, entry)
    expect(unpackEntry(ring, ref, before)).toEqual(entry)
    expect(unpackEntry(keyRing({ keys: [newer] }), ref, before)).toBeUndefined()
    expect(unpackEntry(keyRing({ keys: [foreign] }), ref, before)).toBeUndefined()
  })
})

test('noise is nothing', () => {
  for (const noise of [Buffer.alloc(0), Buffer.of(1), Buffer.of(1, 255), Buffer.alloc(100), randomBytes(500), Buffer.from('OK')]) {
    expect(unpackEntry(ring, ref, noise)).toBeUndefined()
  }
})
