import type { Answer, HeaderPair } from '../../core/answer.js'
import type { KeyRecord, KeyState } from '../../core/record.js'
import type { RedisReply } from './connections/connection.js'

/** A key as a script found or left it, with the Redis time. */
export interface Sighting {
  readonly now: number
  /** Whether the script acted. If not, the key has changed since it was read. */
  readonly acted: boolean
  readonly found: SeenKey | undefined
}

export interface SeenKey {
  readonly record: KeyRecord
  /** Rises with each write. */
  readonly revision: string
}

/** What a script compares before it acts. No key has the version of a missing one. */
export function version(seen: SeenKey | undefined): [incarnation: string, revision: string] {
  return seen ? [seen.record.incarnation, seen.revision] : ['', '']
}

export function sightingOf(id: string, reply: RedisReply): Sighting {
  const [now, acted, pairs] = reply as [number, number, readonly RedisReply[]]
  return { now: Number(now), acted: Number(acted) === 1, found: pairs.length === 0 ? undefined : seenKey(id, pairs) }
}

function seenKey(id: string, pairs: readonly RedisReply[]): SeenKey {
  const fields = new Map<string, Buffer>()
  for (let at = 0; at < pairs.length; at += 2) fields.set(bytes(pairs[at]).toString(), bytes(pairs[at + 1]))
  const optional = (name: string) => fields.get(name)?.toString() ?? null
  const text = (name: string) => optional(name) ?? ''
  const leaseUntil = optional('leaseUntil')
  const record: KeyRecord = {
    id,
    tenant: text('tenant'),
    scope: text('scope'),
    key: text('key'),
    state: text('state') as KeyState,
    incarnation: text('incarnation'),
    fence: Number(text('fence')),
    owner: text('owner'),
    // No steps, no recovery points.
    recoveryPoint: null,
    afterFailure: text('afterFailure') as KeyRecord['afterFailure'],
    async: text('async') === '1',
    attempts: Number(text('attempts')),
    fingerprint: fields.get('fingerprint') ?? null,
    leaseUntil: leaseUntil === null ? null : Number(leaseUntil),
    createdAt: Number(text('createdAt')),
    expiresAt: text('expiresAt') === 'inf' ? Number.POSITIVE_INFINITY : Number(text('expiresAt')),
    answer: answerOf(fields),
    reason: optional('reason'),
    request: fields.get('request') ?? null,
    hasRequest: fields.has('request'),
  }
  return { record, revision: text('revision') }
}

export function answerFields({ status, headers, body, omittedBytes }: Answer): (string | Uint8Array)[] {
  const omitted = omittedBytes === undefined ? [] : ['omittedBytes', String(omittedBytes)]
  return ['status', String(status), 'headers', JSON.stringify(headers), 'body', body, ...omitted]
}

function answerOf(fields: ReadonlyMap<string, Buffer>): Answer | null {
  const [status, headers, body] = ['status', 'headers', 'body'].map((name) => fields.get(name))
  if (!status || !headers || !body) return null
  const omitted = fields.get('omittedBytes')
  return {
    status: Number(status.toString()),
    headers: JSON.parse(headers.toString()) as HeaderPair[],
    body: new Uint8Array(body),
    ...(omitted ? { omittedBytes: Number(omitted.toString()) } : {}),
  }
}

/** Stored texts are bytes: a client configured to return strings would damage bodies. */
function bytes(reply: RedisReply | undefined): Buffer {
  return Buffer.isBuffer(reply) ? reply : Buffer.from(reply as Uint8Array)
}
