import { OncekeyError } from '../../core/errors.js'
import type { HttpBody } from '../../http/request.js'
import { Pieces } from './pieces.js'

/** What an earlier reader has kept of a body. */
export type KeptBody = Exclude<HttpBody, { failed: unknown }>

/** Announced bodies of up to this size are read in one call, which servers make fast; longer ones piece by piece. */
const shortBytes = 64 * 1024

const reading = Symbol('oncekey.reading')
const held = Symbol('oncekey.body')

type Readable = Request & { [reading]?: Promise<HttpBody> }
type Held = Request & { [held]: Uint8Array<ArrayBuffer> }

/** Reads the body once, however often it is called for this request, and hands it on. */
export async function readBody(request: Readable, maxBytes: number, keptBody?: () => Promise<KeptBody | undefined>): Promise<HttpBody> {
  const announced = request.headers.get('content-length')
  if (Number(announced ?? 0) > maxBytes) return { failed: 'too_large' }
  let body: HttpBody
  if (!request[reading] && request.bodyUsed) {
    if (announced?.trim() === '0') return { bytes: new Uint8Array() }
    const kept = await keptBody?.().catch(() => ({ failed: 'incomplete' as const }))
    if (!kept) throw bodyGone()
    body = kept
  } else {
    request[reading] ??= take(request, announced, maxBytes)
    body = await request[reading]
  }
  return 'bytes' in body && body.bytes.length > maxBytes ? { failed: 'too_large' } : body
}

async function take(request: Request, announced: string | null, maxBytes: number): Promise<HttpBody> {
  try {
    const isShort = announced !== null && Number(announced) <= shortBytes
    const bytes = isShort ? new Uint8Array(await request.arrayBuffer()) : await gather(request.body, maxBytes)
    if (!bytes) return { failed: 'too_large' }
    // A request without a body stays as it is.
    if (request.bodyUsed) Object.assign(Object.defineProperties(request, fromBytes), { [held]: bytes })
    return { bytes }
  } catch {
    if (request.bodyUsed) return { failed: 'incomplete' }
    throw bodyGone()
  }
}

async function gather(body: Request['body'], maxBytes: number): Promise<Uint8Array | undefined> {
  const pieces = new Pieces(body)
  const { blocks, over } = await pieces.gather(maxBytes)
  pieces.release()
  return over ? undefined : blocks.bytes()
}

/**
 * What reads the body of a request, from bytes. The request stays the object that its framework made, with `nextUrl`, `cf` and the like. A
 * `new Request()` would be another one, and takes 13 to 30 µs in place of 2 (docs/decisions/0015). The body can be read again and again.
 */
const fromBytes = Object.getOwnPropertyDescriptors<Partial<Request> & { bytes(): Promise<Uint8Array> } & ThisType<Held>>({
  get body() {
    const { body } = new Response(this[held])
    Object.defineProperty(this, 'body', { configurable: true, value: body })
    return body
  },
  get bodyUsed() {
    return false
  },
  async arrayBuffer() {
    return this[held].slice().buffer
  },
  async bytes() {
    return this[held].slice()
  },
  async text() {
    return new TextDecoder().decode(this[held])
  },
  async json() {
    return JSON.parse(new TextDecoder().decode(this[held]))
  },
  blob() {
    return typed(this).blob()
  },
  formData() {
    return typed(this).formData()
  },
  clone() {
    const { url, method, headers, signal, [held]: body } = this
    try {
      return new Request(this, { body })
    } catch {
      // Not one of the platform's own: @hono/node-server makes light ones.
      return new Request(url, { method, headers, signal, body })
    }
  },
})

/** Its media type says what a blob or a form is. */
const typed = ({ headers, [held]: body }: Held) => new Response(body, { headers: { 'content-type': headers.get('content-type') ?? '' } })

const bodyGone = () =>
  new OncekeyError(
    'raw_body_gone',
    'The body of the request was read before the idempotency layer came to it, and its bytes are gone. Mount the layer before whoever ' +
      'reads it, or let that one read a clone of the request.',
  )
