import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { Answer, HeaderPair } from './answer.js'
import { OncekeyError } from './errors.js'
import type { KeyRing } from './key-ring.js'

/** The row that data is sealed for: in another row it cannot be opened. */
export interface Place {
  readonly tenant: string
  readonly id: string
}

type Sealed = 'answer' | 'request' | 'payload'

/** The only header of a sealed answer; its value is the id of the encryption key. */
export const sealedHeader = 'oncekey-sealed'

/** Layout: version, nonce, tag, ciphertext. */
const version = 1
const nonceBytes = 12
const tagBytes = 16
const boxHeadBytes = 1 + nonceBytes + tagBytes

/** Seals headers and body into one box, stored as the body. The status stays readable, but is bound to the box. */
export function sealAnswer(ring: KeyRing, place: Place, answer: Answer): Answer {
  const { status, headers, body, omittedBytes } = answer
  const headersJson = Buffer.from(JSON.stringify(headers))
  const headersLength = Buffer.alloc(4)
  headersLength.writeUInt32BE(headersJson.length)
  const box = seal(ring, [headersLength, headersJson, body], boundTo('answer', ring.current.id, place, answer))
  return { status, headers: [[sealedHeader, ring.current.id]], body: box, ...(omittedBytes === undefined ? {} : { omittedBytes }) }
}

/** The id of the encryption key that sealed a stored answer; undefined for a plain one. */
export function sealedWith({ headers }: Pick<Answer, 'headers'>): string | undefined {
  return headers.length === 1 && headers[0]?.[0] === sealedHeader ? headers[0][1] : undefined
}

/** Returns a plain answer as it is: stored before encryption was enabled, or by the store itself. */
export function openAnswer(ring: KeyRing | undefined, placeOf: () => Place, answer: Answer): Answer {
  const keyId = sealedWith(answer)
  if (keyId === undefined) return answer
  const { status, body, omittedBytes } = answer
  const plain = open('answer', ring, keyId, body, boundTo('answer', keyId, placeOf(), answer))
  const bodyAt = 4 + plain.readUInt32BE()
  return {
    status,
    headers: JSON.parse(plain.toString('utf8', 4, bodyAt)) as HeaderPair[],
    body: bytesOf(plain, bodyAt),
    ...(omittedBytes === undefined ? {} : { omittedBytes }),
  }
}

/** Prefix of a sealed or escaped request. UTF-8, and so JSON, never has the byte 0xff. */
const magic = Buffer.from('\xffoncekey', 'latin1')
const escaped = 0
const sealed = 1

/** A request of any bytes, in an unambiguous form for `openRequest`. Without a ring it is nearly always unchanged. */
export function sealRequest(ring: KeyRing | undefined, placeOf: () => Place, request: Uint8Array): Uint8Array {
  if (!ring) return beginsWithMagic(request) ? Buffer.concat([magic, Buffer.of(escaped), request]) : request
  const { id } = ring.current
  const box = seal(ring, [request], boundTo('request', id, placeOf()))
  return Buffer.concat([magic, Buffer.of(sealed, id.length), Buffer.from(id, 'latin1'), box])
}

export function openRequest(ring: KeyRing | undefined, placeOf: () => Place, request: Uint8Array): Uint8Array {
  if (!beginsWithMagic(request)) return request
  const kindAt = magic.length
  if (request[kindAt] === escaped) return request.subarray(kindAt + 1)
  if (request[kindAt] !== sealed) throw unreadable('request', 'it is in a form that this release does not know')
  const idAt = kindAt + 2
  const boxAt = idAt + (request[kindAt + 1] ?? 0)
  const keyId = Buffer.from(request.subarray(idAt, boxAt)).toString('latin1')
  return bytesOf(open('request', ring, keyId, request.subarray(boxAt), boundTo('request', keyId, placeOf())), 0)
}

/** Prefix of a sealed payload. No JSON begins like this, so a plain payload is unchanged. */
const sealedPayload = 'oncekey-sealed'

/** Seals the payload of a job, from text to text. */
export function sealPayload(ring: KeyRing, place: Place, payload: string): string {
  const { id } = ring.current
  const box = seal(ring, [Buffer.from(payload)], boundTo('payload', id, place))
  return `${sealedPayload} ${Buffer.from(box).toString('base64')} ${id}`
}

/** The id of the encryption key that sealed a stored payload; undefined for a plain one. */
export function payloadSealedWith(payload: string): string | undefined {
  if (!payload.startsWith(`${sealedPayload} `)) return undefined
  // The id may have spaces.
  return payload.split(' ').slice(2).join(' ')
}

export function openPayload(ring: KeyRing | undefined, place: Place, payload: string): string {
  const keyId = payloadSealedWith(payload)
  if (keyId === undefined) return payload
  const [, box = ''] = payload.split(' ')
  return open('payload', ring, keyId, Buffer.from(box, 'base64'), boundTo('payload', keyId, place)).toString('utf8')
}

function beginsWithMagic(bytes: Uint8Array): boolean {
  return magic.every((byte, index) => bytes[index] === byte)
}

/** Additional authenticated data: a box opens only as the same kind, in its row, with its stored status. */
function boundTo(what: Sealed, keyId: string, { tenant, id }: Place, answer?: Answer): Uint8Array {
  return Buffer.from(JSON.stringify([version, what, keyId, tenant, id, answer?.status ?? null, answer?.omittedBytes ?? null]))
}

function seal({ current }: KeyRing, plain: readonly Uint8Array[], bound: Uint8Array): Uint8Array {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', current.key, nonce, { authTagLength: tagBytes }).setAAD(bound)
  const ciphertext = plain.map((bytes) => cipher.update(bytes))
  ciphertext.push(cipher.final())
  return Buffer.concat([Buffer.of(version), nonce, cipher.getAuthTag(), ...ciphertext])
}

function open(what: Sealed, ring: KeyRing | undefined, keyId: string, box: Uint8Array, bound: Uint8Array): Buffer {
  const key = ring?.find(keyId)
  if (!key) throw keyMissing(what, ring, keyId)
  if (box.length < boxHeadBytes) throw unreadable(what, 'it is cut off')
  if (box[0] !== version) throw unreadable(what, 'it is in a form that this release does not know')
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(1, 1 + nonceBytes), { authTagLength: tagBytes })
  decipher.setAAD(bound).setAuthTag(box.subarray(1 + nonceBytes, boxHeadBytes))
  const plain = decipher.update(box.subarray(boxHeadBytes))
  try {
    decipher.final()
  } catch (cause) {
    throw unreadable(what, `the encryption key ${keyId} is another one than it was, or the row was damaged or moved`, cause)
  }
  return plain
}

/** As a Uint8Array, like the work's own: a Buffer would not compare equal. */
function bytesOf(buffer: Buffer, from: number): Uint8Array {
  return new Uint8Array(buffer.buffer, buffer.byteOffset + from, buffer.length - from)
}

function keyMissing(what: string, ring: KeyRing | undefined, keyId: string): OncekeyError {
  const where = ring ? 'which is not in encryption.keys' : 'and createOnce was given no `encryption`'
  return new OncekeyError(
    'encryption_key_missing',
    `The stored ${what} was sealed with the encryption key ${keyId}, ${where}. Put that key back; nothing was run.`,
  )
}

function unreadable(what: string, why: string, cause?: unknown): OncekeyError {
  return new OncekeyError(
    'answer_unreadable',
    `The stored ${what} cannot be opened: ${why}. Put the right key back or restore the row; nothing was run.`,
    cause === undefined ? {} : { cause },
  )
}
