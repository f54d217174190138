// Where @node-idempotency keeps its keys. Its entries go by themselves at the end of their time.
import type { Request } from 'express'
import type { Earlier } from './in-front.js'

/** The subset of a client of Redis that we need. */
export interface RedisReader {
  get(name: string): Promise<string | null>
}

interface Entry {
  readonly status: 'IN_PROGRESS' | 'COMPLETE'
  readonly response?: {
    readonly body?: unknown
    readonly error?: unknown
    readonly additional?: { readonly statusCode?: number }
  }
}

/** `pathOf`: the path as the old middleware saw it. In Express that is `request.url`, without the mount point of a router. */
export function nodeIdempotencyEntries(
  redis: RedisReader,
  { prefix = 'node-idempotency', pathOf = (request: Request) => request.originalUrl } = {},
) {
  return async (request: Request, key: string): Promise<Earlier> => {
    const text = await redis.get(`${prefix}:${request.method}:${pathOf(request)}:${key}`)
    if (text === null) return { kind: 'unknown' }
    const { status, response } = JSON.parse(text) as Entry
    if (status === 'IN_PROGRESS') return { kind: 'unfinished' }
    return { kind: 'finished', status: response?.additional?.statusCode ?? 200, body: response?.body ?? response?.error ?? null }
  }
}
