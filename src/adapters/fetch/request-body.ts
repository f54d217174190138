import { OncekeyError } from '../../core/errors.js'
import type { HttpBody } from '../../http/request.js'
import { joined, piecesOf } from './pieces.js'

/** What is left of a body that somebody has read already. */
export type KeptBody = Exclude<HttpBody, { failed: unknown }>

/** Reads a copy, so that the handler finds the body where it was. */
export async function readBody(request: Request, maxBytes: number, keptBody?: () => Promise<KeptBody | undefined>): Promise<HttpBody> {
  if (!hasBody(request)) return { bytes: new Uint8Array() }
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) return { failed: 'too_large' }
  const copy = copyOf(request)
  if (copy) return readCopy(copy, maxBytes)
  const kept = await keptBody?.().catch(() => 'failed' as const)
  if (kept === 'failed') return { failed: 'incomplete' }
  if (!kept) throw bodyGone()
  return 'bytes' in kept && kept.bytes.length > maxBytes ? { failed: 'too_large' } : kept
}

/**
 * Whether there is a body to be read. Headers do not say: a request over HTTP/2, or one that was made in this process, announces none
 * and may have one all the same.
 */
function hasBody(request: Request): boolean {
  return request.bodyUsed ? request.headers.get('content-length')?.trim() !== '0' : request.body !== null
}

/** Undefined if somebody reads the body, or has read it. */
function copyOf(request: Request): Request | undefined {
  try {
    return request.clone()
  } catch {
    return undefined
  }
}

async function readCopy(copy: Request, maxBytes: number): Promise<HttpBody> {
  const pieces = piecesOf(copy.body)
  const read: Uint8Array[] = []
  let size = 0
  try {
    for (let piece = await pieces.next(); piece; piece = await pieces.next()) {
      size += piece.length
      if (size > maxBytes) {
        // Or what is still to come would be kept for us.
        pieces.drop(undefined)
        return { failed: 'too_large' }
      }
      read.push(piece)
    }
  } catch {
    return { failed: 'incomplete' }
  }
  return { bytes: joined(read) }
}

const bodyGone = () =>
  new OncekeyError(
    'raw_body_gone',
    'The body of the request was read before the idempotency layer came to it, and its bytes are gone. Mount the layer before whoever ' +
      'reads it, or let that one read a clone of the request.',
  )
