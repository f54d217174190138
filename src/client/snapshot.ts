import { IdempotentFetchError } from './client-error.js'
import { defined } from './defined.js'
import type { Body } from './pending-request.js'

/** All of a request, in a form that can be sent again and again. */
export interface Snapshot {
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body: Body
  readonly settings: Readonly<Record<string, unknown>>
  readonly signal: AbortSignal | null | undefined
}

const settingNames = ['credentials', 'integrity', 'keepalive', 'mode', 'redirect', 'referrerPolicy'] as const

export function methodOf(input: string | URL | Request, init: RequestInit): string {
  return (init.method ?? requestOf(input)?.method ?? 'GET').toUpperCase()
}

/**
 * The body is serialised here, once: a form gets another boundary each time fetch serialises it, and the server would take that for another
 * request.
 */
export async function snapshotOf(input: string | URL | Request, init: RequestInit): Promise<Snapshot> {
  const request = requestOf(input)
  const given = settingsOf(init, request)
  if (given.mode === 'no-cors') {
    throw new IdempotentFetchError('key_not_sendable', "mode: 'no-cors' drops the key: let the server allow it by CORS.")
  }
  const headers = new Headers(init.headers ?? request?.headers)
  const { body, type } = init.body == null ? { body: await bodyOf(request), type: null } : await serialised(init.body)
  if (type && !headers.has('content-type')) headers.set('content-type', type)
  const url = String(request ? request.url : input)
  const { location } = globalThis as { location?: { href: string } }
  return {
    // A wrong address is an error at once, not one of the network that is tried again. The address may mean something else after a reload.
    url: new URL(url, location?.href).href,
    method: methodOf(input, init),
    headers,
    body,
    settings: given,
    signal: init.signal ?? request?.signal,
  }
}

function requestOf(input: string | URL | Request): Request | undefined {
  return typeof input === 'object' && 'headers' in input ? input : undefined
}

function settingsOf(init: RequestInit, request: Request | undefined): Snapshot['settings'] {
  // Every Request says that redirects are to be followed by default: the caller did not choose that.
  const asked = (value: unknown) => (value === 'follow' ? undefined : value)
  return defined(Object.fromEntries(settingNames.map((name) => [name, init[name] ?? asked(request?.[name])])))
}

async function bodyOf(request: Request | undefined): Promise<Body> {
  if (!request || request.body === null) return undefined
  return new Uint8Array(await request.arrayBuffer())
}

async function serialised(body: NonNullable<RequestInit['body']>): Promise<{ body: Body; type: string | null }> {
  if (typeof body === 'string') return { body, type: null }
  if (body instanceof URLSearchParams) return { body: String(body), type: 'application/x-www-form-urlencoded;charset=UTF-8' }
  if (!(body instanceof ArrayBuffer || ArrayBuffer.isView(body) || body instanceof Blob || body instanceof FormData)) {
    throw new IdempotentFetchError('body_not_replayable', 'This body can be read only once: pass a string, bytes or a Blob.')
  }
  const whole = new Response(body as Blob)
  return { body: new Uint8Array(await whole.arrayBuffer()), type: whole.headers.get('content-type') }
}
