import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.js'
import { type Answer, type HeaderPair, reply } from './answer.js'
import { type KeyRing, keyRing } from './key-ring.js'
import { openAnswer, openRequest, type Place, sealAnswer, sealedHeader, sealRequest } from './sealing.js'

const newKey = (id: string) => ({ id, key: randomBytes(32) })
const [older, newer] = [newKey('older'), newKey('newer')]
const ring = keyRing({ keys: [older] })
const here: Place = { tenant: 'acme', id: 'f3b0c442-98fc-8c14-9afb-f4c8996fb924' }
const at = (place: Place) => () => place

const aStatus = fc.constantFrom(200, 201, 204, 205, 303, 304, 402, 500)
const aHeader = fc.tuple(fc.constantFrom('link', 'Location', 'x-a', 'oncekey-sealed'), fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]*$/))
const anAnswer: fc.Arbitrary<Answer> = fc.record(
  {
    status: aStatus,
    headers: fc.array(aHeader as fc.Arbitrary<HeaderPair>),
    body: fc.uint8Array({ maxLength: 200 }),
    omittedBytes: fc.nat(),
  },
  { requiredKeys: ['status', 'headers', 'body'] },
)
const aRing = fc.constantFrom<(KeyRing | undefined)[]>(ring, undefined)

/** The same bytes with one bit turned over. */
function flipped(bytes: Uint8Array, at: number): Uint8Array {
  const copy = new Uint8Array(bytes)
  const index = at % (copy.length * 8)
  copy[index >> 3] = (copy[index >> 3] as number) ^ (1 << (index & 7))
  return copy
}

describe('a sealed answer', () => {
  test('opens as what it was, whatever it was', () => {
    fc.assert(
      fc.property(anAnswer, (answer) => {
        expect(openAnswer(ring, at(here), sealAnswer(ring, here, answer))).toEqual(answer)
      }),
    )
  })

  test.each<[string, Answer]>([
    ['an answer without a body or headers', reply(204)],
    ['bytes from a Buffer', reply(200, Buffer.from([0, 255, 1]))],
    ['an answer whose body was omitted', { ...reply(200), omittedBytes: 0 }],
    ['a megabyte', reply(200, randomBytes(1024 * 1024))],
  ])('opens as %s', (_, answer) => {
    const opened = openAnswer(ring, at(here), sealAnswer(ring, here, answer))
    // Byte by byte as Buffers do it: vitest takes seconds for a megabyte.
    expect(Buffer.compare(opened.body, answer.body)).toBe(0)
    expect({ ...opened, body: null }).toEqual({ ...answer, body: null })
    expect(opened.body).toBeInstanceOf(Uint8Array)
    expect(opened.body).not.toBeInstanceOf(Buffer)
  })

  test('shows its status, the id of the key and the size of an omitted body, and nothing else', () => {
    const sealed = sealAnswer(ring, here, { ...reply(402, 'a secret', { 'x-token': 'a secret' }), omittedBytes: 7 })
    expect(sealed).toEqual({ status: 402, headers: [[sealedHeader, 'older']], body: expect.any(Uint8Array), omittedBytes: 7 })
    expect(Buffer.from(sealed.body).includes('secret')).toBe(false)
    expect(Buffer.from(sealed.body).includes('x-token')).toBe(false)
  })

  test('is another one each time', () => {
    const nonces = Array.from({ length: 100 }, () =>
      Buffer.from(sealAnswer(ring, here, reply(200, 1)).body.subarray(1, 13)).toString('hex'),
    )
    expect(new Set(nonces).size).toBe(100)
  })

  test('does not open with any bit of it turned over', () => {
    fc.assert(
      fc.property(anAnswer, fc.nat(), (answer, bit) => {
        const sealed = sealAnswer(ring, here, answer)
        const damaged = { ...sealed, body: flipped(sealed.body, bit) }
        expect(codeOf(() => openAnswer(ring, at(here), damaged))).toBe('answer_unreadable')
      }),
    )
    const sealed = sealAnswer(ring, here, reply(204))
    for (let bit = 0; bit < sealed.body.length * 8; bit += 1) {
      expect(codeOf(() => openAnswer(ring, at(here), { ...sealed, body: flipped(sealed.body, bit) }))).toBe('answer_unreadable')
    }
  })

  test('does not open cut off or with something behind it', () => {
    const sealed = sealAnswer(ring, here, reply(200, 'hello'))
    for (let length = 0; length < sealed.body.length; length += 1) {
      expect(codeOf(() => openAnswer(ring, at(here), { ...sealed, body: sealed.body.subarray(0, length) }))).toBe('answer_unreadable')
    }
    const longer = { ...sealed, body: Buffer.concat([sealed.body, Buffer.of(0)]) }
    expect(codeOf(() => openAnswer(ring, at(here), longer))).toBe('answer_unreadable')
  })

  test.each<[string, Place]>([
    ['of another tenant', { ...here, tenant: 'other' }],
    ['of another key', { ...here, id: 'f3b0c442-98fc-8c14-9afb-f4c8996fb925' }],
    // The same letters, with the border between tenant and id elsewhere.
    ['of a tenant that borrows from the id', { tenant: `acme","${here.id.slice(0, 4)}`, id: here.id.slice(4) }],
  ])('does not open in a row %s', (_, elsewhere) => {
    const sealed = sealAnswer(ring, here, reply(200, 'hello'))
    expect(codeOf(() => openAnswer(ring, at(elsewhere), sealed))).toBe('answer_unreadable')
  })

  test('does not open beside another status or size', () => {
    const sealed = sealAnswer(ring, here, reply(402, 'declined'))
    expect(codeOf(() => openAnswer(ring, at(here), { ...sealed, status: 200 }))).toBe('answer_unreadable')
    expect(codeOf(() => openAnswer(ring, at(here), { ...sealed, omittedBytes: 1 }))).toBe('answer_unreadable')
  })

  test('does not open as a request, nor a request as an answer', () => {
    const request = sealRequest(ring, at(here), Buffer.from('{}'))
    const box = request.subarray(request.length - (1 + 12 + 16 + 2))
    const moved = { status: 200, headers: [[sealedHeader, 'older']] as const, body: box }
    expect(codeOf(() => openAnswer(ring, at(here), moved))).toBe('answer_unreadable')
    const head = request.subarray(0, request.length - box.length)
    const answer = sealAnswer(ring, here, reply(200))
    expect(codeOf(() => openRequest(ring, at(here), Buffer.concat([head, answer.body])))).toBe('answer_unreadable')
  })

  test('opens after a rotation, for as long as its key is there', () => {
    const sealed = sealAnswer(ring, here, reply(200, 'hello'))
    const rotated = keyRing({ keys: [newer, older] })
    expect(openAnswer(rotated, at(here), sealed)).toEqual(reply(200, 'hello'))
    expect(sealAnswer(rotated, here, reply(200)).headers).toEqual([[sealedHeader, 'newer']])
    const error = (open: KeyRing | undefined) => () => openAnswer(open, at(here), sealed)
    expect(codeOf(error(keyRing({ keys: [newer] })))).toBe('encryption_key_missing')
    expect(error(keyRing({ keys: [newer] }))).toThrow(/key older, which is not in encryption.keys/)
    expect(codeOf(error(undefined))).toBe('encryption_key_missing')
    expect(error(undefined)).toThrow(/given no `encryption`/)
  })

  test('does not open with another key under the same id, nor with another id for the same key', () => {
    const sealed = sealAnswer(ring, here, reply(200, 'hello'))
    expect(codeOf(() => openAnswer(keyRing({ keys: [newKey('older')] }), at(here), sealed))).toBe('answer_unreadable')
    const renamed = keyRing({ keys: [{ ...older, id: 'renamed' }] })
    expect(codeOf(() => openAnswer(renamed, at(here), { ...sealed, headers: [[sealedHeader, 'renamed']] }))).toBe('answer_unreadable')
  })

  test('of a later release is refused, not guessed at', () => {
    const sealed = sealAnswer(ring, here, reply(200))
    const later = { ...sealed, body: Buffer.concat([Buffer.of(2), sealed.body.subarray(1)]) }
    expect(() => openAnswer(ring, at(here), later)).toThrow(/a form that this release does not know/)
  })
})

test('gives a plain answer back as it is, with a ring and without, and does not ask where it is', () => {
  const nowhere = () => {
    throw new Error('it need not be known')
  }
  fc.assert(
    fc.property(anAnswer, aRing, (answer, opening) => {
      fc.pre(answer.headers.length !== 1 || answer.headers[0]?.[0] !== sealedHeader)
      expect(openAnswer(opening, nowhere, answer)).toBe(answer)
    }),
  )
})

describe('a stored request', () => {
  const magic = [255, ...Buffer.from('oncekey')]
  const aRequest = fc.oneof(
    fc.uint8Array({ maxLength: 100 }),
    fc.uint8Array({ maxLength: 5 }).map((rest) => Uint8Array.from([...magic, ...rest])),
    fc.json().map((text) => new TextEncoder().encode(text)),
  )

  test('opens as what it was, sealed or not, whatever it was', () => {
    fc.assert(
      fc.property(aRequest, aRing, (request, sealing) => {
        expect([...openRequest(sealing, at(here), sealRequest(sealing, at(here), request))]).toEqual([...request])
        // Plain ones from before encryption was switched on.
        if (!sealing) expect([...openRequest(ring, at(here), sealRequest(sealing, at(here), request))]).toEqual([...request])
      }),
    )
  })

  test('stays as it is without a ring', () => {
    const request = Buffer.from('{"a":1}')
    expect(sealRequest(undefined, at(here), request)).toBe(request)
    expect(openRequest(undefined, at(here), request)).toBe(request)
    expect(openRequest(ring, at(here), request)).toBe(request)
  })

  test('shows nothing of itself when it is sealed, and begins as no JSON does', () => {
    const sealed = sealRequest(ring, at(here), Buffer.from('{"token":"a secret"}'))
    expect(Buffer.from(sealed).includes('secret')).toBe(false)
    expect(() => new TextDecoder('utf-8', { fatal: true }).decode(sealed.subarray(0, 1))).toThrow()
    expect([...sealRequest(ring, at(here), new Uint8Array())].slice(0, 8)).toEqual(magic)
  })

  test('does not open with any bit of the sealed part turned over', () => {
    const sealed = sealRequest(ring, at(here), Buffer.from('{}'))
    for (let bit = (8 + 2 + 'older'.length) * 8; bit < sealed.length * 8; bit += 1) {
      expect(codeOf(() => openRequest(ring, at(here), flipped(sealed, bit)))).toBe('answer_unreadable')
    }
  })

  test('does not open elsewhere, cut off, in an unknown form, or without its key', () => {
    const sealed = sealRequest(ring, at(here), Buffer.from('{}'))
    const code = (request: Uint8Array, place = here, opening: KeyRing | undefined = ring) =>
      codeOf(() => openRequest(opening, at(place), request))
    expect(code(sealed, { ...here, tenant: 'other' })).toBe('answer_unreadable')
    expect(code(sealed, { ...here, id: 'other' })).toBe('answer_unreadable')
    expect(code(sealed.subarray(0, -1))).toBe('answer_unreadable')
    expect(code(Uint8Array.from([...magic, 2]))).toBe('answer_unreadable')
    expect(code(Uint8Array.from(magic))).toBe('answer_unreadable')
    expect(code(sealed, here, keyRing({ keys: [newer] }))).toBe('encryption_key_missing')
    expect(codeOf(() => openRequest(undefined, at(here), sealed))).toBe('encryption_key_missing')
    expect([...openRequest(keyRing({ keys: [newer, older] }), at(here), sealed)]).toEqual([...Buffer.from('{}')])
  })
})
