import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { ArrivingBody } from './arriving-body.js'
import { createFingerprinter, type Fingerprinter } from './fingerprint.js'

const before = { id: '2025', secret: 'the secret of last year' }
const now = { id: '2026', secret: 'the secret of this year' }
const upload = { method: 'POST', path: '/files', mediaType: 'image/png' }
const bytes = randomBytes(5_000)

function arrived(fingerprinter: Fingerprinter, ...pieces: Uint8Array[]): ArrivingBody {
  const body = fingerprinter.arriving('image/png') as ArrivingBody
  for (const piece of pieces) body.add(piece)
  return body
}

describe('a body that is hashed while it arrives', () => {
  test.each([
    ['without a secret', createFingerprinter()],
    ['with one', createFingerprinter({ secrets: [now] })],
  ])('has the fingerprint of one that is whole, %s', (_, fingerprinter) => {
    const pieces = [bytes.subarray(0, 1), bytes.subarray(1, 4_096), bytes.subarray(4_096)]
    expect(fingerprinter({ ...upload, arrived: arrived(fingerprinter, ...pieces) }).bytes).toEqual(
      fingerprinter({ ...upload, body: bytes }).bytes,
    )
  })

  test('is no body if nothing arrives', () => {
    const fingerprinter = createFingerprinter()
    expect(fingerprinter({ ...upload, arrived: arrived(fingerprinter) }).bytes).toEqual(fingerprinter(upload).bytes)
    expect(fingerprinter({ ...upload, arrived: arrived(fingerprinter, new Uint8Array()) }).bytes).toEqual(fingerprinter(upload).bytes)
  })

  test('is compared with what was stored under an earlier secret', () => {
    const stored = createFingerprinter({ secrets: [before] })({ ...upload, body: bytes }).bytes
    const rotated = createFingerprinter({ secrets: [now, before] })
    expect(rotated({ ...upload, arrived: arrived(rotated, bytes) }).differenceFrom(stored)).toBe(null)
    expect(rotated({ ...upload, arrived: arrived(rotated, bytes.subarray(1)) }).differenceFrom(stored)).toBe('body')
  })

  test('is hashed again by a fingerprinter that did not make it', () => {
    const [one, other] = [createFingerprinter({ secrets: [before] }), createFingerprinter({ secrets: [now] })]
    expect(other({ ...upload, arrived: arrived(one, bytes) }).bytes).toEqual(other({ ...upload, body: bytes }).bytes)
  })

  test('is not for JSON, which is compared by its meaning; what turns out to be JSON is compared so all the same', () => {
    const fingerprinter = createFingerprinter()
    expect(fingerprinter.arriving('application/json; charset=utf-8')).toBe(undefined)
    expect(fingerprinter.arriving('application/problem+json')).toBe(undefined)
    const json = { ...upload, mediaType: 'application/json' }
    const spaced = arrived(fingerprinter, Buffer.from('{ "a" :'), Buffer.from(' 1 }'))
    expect(fingerprinter({ ...json, arrived: spaced }).bytes).toEqual(fingerprinter({ ...json, body: '{"a":1}' }).bytes)
  })
})
