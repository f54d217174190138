import { createHash, randomBytes, randomInt, randomUUID } from 'node:crypto'
import type { Field, Request } from './fields.js'

export const tenantCount = 100
export const scope = 'orders.create'
export const headersText = '{"content-type":"application/json; charset=utf-8","location":"/orders/1234567"}'
export const fingerprintBytes = 41

const quoted = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`
const byteaLiteral = (length: number) => quoted(`\\x${randomBytes(length).toString('hex')}`)

// Nothing compresses or compares these bytes, so a pool of them costs the client less and changes nothing on the server.
const byteaPool = (length: number) => Array.from({ length: 256 }, () => byteaLiteral(length))
const fingerprints = byteaPool(fingerprintBytes)
const bodies = new Map<number, string[]>()
const headers = quoted(headersText)

/** `count` requests with new keys, in the order of the primary key. Only a layout that looks up by digest pays for one. */
export function newRequests(count: number, lookup: readonly Field[], bodyBytes: number) {
  const digests = lookup.includes('id')
  const pool = bodies.get(bodyBytes) ?? byteaPool(bodyBytes)
  bodies.set(bodyBytes, pool)
  const requests = Array.from({ length: count }, () => newRequest(digests, anyOf(pool)))
  return sortByFields(requests, lookup)
}

function newRequest(digests: boolean, body: string): Request {
  const key = randomUUID()
  return {
    tenant: `tenant-${randomInt(tenantCount)}`,
    scope,
    key,
    id: digests ? digestOf(scope, key) : '',
    serial: '',
    incarnation: randomUUID(),
    owner: randomUUID(),
    fence: '',
    fingerprint: anyOf(fingerprints),
    status: '201',
    headers,
    body,
  }
}

function anyOf(pool: readonly string[]) {
  return pool[randomInt(pool.length)] as string
}

function digestOf(scope: string, key: string) {
  const hex = createHash('sha256').update(`${scope}\0${key}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`
}

function sortByFields(requests: Request[], fields: readonly Field[]) {
  return requests.sort((left, right) => {
    for (const field of fields) {
      if (left[field] < right[field]) return -1
      if (left[field] > right[field]) return 1
    }
    return 0
  })
}
