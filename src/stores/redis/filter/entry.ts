import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { Answer } from '../../../core/answer.js'
import type { KeyRef } from '../../../core/key.js'
import type { KeyRing } from '../../../core/key-ring.js'

/** What the filter knows of a key. `until` is on the database's clock, never past the lease or expiry. */
export type Entry = { readonly until: number; readonly incarnation: string; readonly fingerprint: Uint8Array | null } & (
  | { readonly kind: 'finished'; readonly state: 'complete' | 'failed'; readonly answer: Answer }
  | { readonly kind: 'held'; readonly owner: string }
)

/** Layout: version, length of the secret's id, the id, the proof, length of the head, the head as JSON, the body of the answer. */
const formatVersion = 1
const proofBytes = 32

/** The entry as authenticated bytes: without a secret they cannot be made, changed or moved to another key. */
export function packEntry({ current }: KeyRing, ref: KeyRef, entry: Entry): Uint8Array {
  const body = entry.kind === 'finished' ? entry.answer.body : new Uint8Array()
  const fingerprint = entry.fingerprint && Buffer.from(entry.fingerprint).toString('base64')
  const answer = entry.kind === 'finished' ? { ...entry.answer, body: undefined } : undefined
  const head = Buffer.from(JSON.stringify({ ...entry, fingerprint, answer }))
  const headLength = Buffer.alloc(4)
  headLength.writeUInt32BE(head.length)
  const content = Buffer.concat([headLength, head, body])
  const id = Buffer.from(current.id, 'latin1')
  return Buffer.concat([Buffer.of(formatVersion, id.length), id, proof(current.key, current.id, ref, content), content])
}

/** Undefined unless one of our processes wrote exactly these bytes for this key. */
export function unpackEntry(ring: KeyRing, ref: KeyRef, bytes: Uint8Array): Entry | undefined {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  const proofAt = 2 + (buffer[1] ?? 0)
  const contentAt = proofAt + proofBytes
  if (buffer[0] !== formatVersion || buffer.length < contentAt + 4) return undefined
  const id = buffer.toString('latin1', 2, proofAt)
  const key = ring.find(id)
  const content = buffer.subarray(contentAt)
  if (!key || !timingSafeEqual(buffer.subarray(proofAt, contentAt), proof(key, id, ref, content))) return undefined
  return parsed(content)
}

/** Authenticated bytes need no further checks. */
function parsed(content: Buffer): Entry {
  const bodyAt = 4 + content.readUInt32BE()
  const head = JSON.parse(content.toString('utf8', 4, bodyAt))
  const fingerprint = head.fingerprint === null ? null : new Uint8Array(Buffer.from(head.fingerprint, 'base64'))
  if (head.kind === 'held') return { ...head, fingerprint }
  return { ...head, fingerprint, answer: { ...head.answer, body: new Uint8Array(content.subarray(bodyAt)) } }
}

function proof(key: KeyObject, id: string, { tenant, scope, key: name }: KeyRef, content: Uint8Array): Buffer {
  const bound = Buffer.from(JSON.stringify(['oncekey filter', formatVersion, id, tenant, scope, name]))
  const boundLength = Buffer.alloc(4)
  boundLength.writeUInt32BE(bound.length)
  return createHmac('sha256', key).update(boundLength).update(bound).update(content).digest()
}
