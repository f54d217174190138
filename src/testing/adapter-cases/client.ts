import { request as httpRequest } from 'node:http'
import { connect, type Socket } from 'node:net'

export interface Sent {
  readonly method: string
  readonly path: string
  /** Null: no key. */
  readonly key: string | null
  readonly tenant: string
  readonly headers: Readonly<Record<string, string | string[]>>
  /** Null: no body. A list: sent in chunks. */
  readonly body: string | Uint8Array | readonly string[] | null
}

export interface Answered {
  readonly status: number
  /** Every line of that name. */
  lines(name: string): string[]
  readonly body: Buffer
}

/** A plain HTTP client: no redirects, no decompression, no joined headers. */
export function send(url: string, { method, path, key, tenant, headers, body }: Sent): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const length = typeof body === 'string' || body instanceof Uint8Array ? { 'content-length': Buffer.byteLength(body) } : {}
    const request = httpRequest(
      new URL(path, url),
      { method, agent: false, headers: { ...length, 'x-tenant': tenant, ...(key === null ? {} : { 'idempotency-key': key }), ...headers } },
      (response) => {
        const pieces: Buffer[] = []
        const { rawHeaders } = response
        response.on('data', (piece: Buffer) => pieces.push(piece)).on('error', reject)
        response.on('end', () =>
          resolve({
            status: response.statusCode as number,
            lines: (name) => rawHeaders.filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name),
            body: Buffer.concat(pieces),
          }),
        )
      },
    )
    request.on('error', reject)
    if (Array.isArray(body)) for (const piece of body) request.write(piece)
    request.end(typeof body === 'string' || body instanceof Uint8Array ? body : undefined)
  })
}

/** A raw connection, for invalid requests. */
export function rawConnection(url: string): Promise<Socket & { received(): string }> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => resolve(Object.assign(socket, { received: () => text })))
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    socket.once('error', reject)
    socket.on('error', () => {})
  })
}

interface RawHead {
  path: string
  tenant: string
  key: string
}

/** The bytes of a request as text. */
export function rawRequest({ body, length = Buffer.byteLength(body), ...head }: RawHead & { body: string; length?: number }): string {
  return `${rawHead(head)}Content-Length: ${length}\r\n\r\n${body}`
}

/** Its head, without the last line. */
export function rawHead({ path, tenant, key }: RawHead): string {
  return [
    `POST ${path} HTTP/1.1`,
    'Host: localhost',
    'Content-Type: application/json',
    `X-Tenant: ${tenant}`,
    `Idempotency-Key: ${key}`,
    '',
  ].join('\r\n')
}
