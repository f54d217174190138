import { once as eventOf } from 'node:events'
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface RawResponse {
  readonly status: number
  /** By lower-case name; the values of repeated names one after the other. */
  readonly headers: ReadonlyMap<string, readonly string[]>
  readonly body: string
}

/** A client that sends exactly the bytes it is told to send, and reads HTTP/1.1. Text is Latin-1: one character, one byte. */
export interface RawConnection {
  send(text: string): void
  /** The next response on this connection; a 100 is one of its own. Rejects if the connection ends before it is whole. */
  response(): Promise<RawResponse>
  /** Reads nothing more, so that the server's answer gets stuck on its way. */
  stopReading(): void
  /** Sends no more, and still reads. */
  halfClose(): void
  hangUp(): void
  /** Resolves once the server has closed the connection, or we have. */
  untilClosed(): Promise<void>
}

export async function openRaw(port: number): Promise<RawConnection> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.setNoDelay(true)
  const inbox = new Inbox(socket)
  await eventOf(socket, 'connect')
  onTestFinished(() => {
    socket.destroy()
  })
  return {
    send: (text) => void socket.write(text, 'latin1'),
    response: () => inbox.response(),
    stopReading: () => void socket.pause(),
    halfClose: () => void socket.end(),
    hangUp: () => void socket.resetAndDestroy(),
    async untilClosed() {
      if (!inbox.ended) await eventOf(socket, 'close').catch(() => {})
    },
  }
}

/** What has arrived and was not taken yet. */
class Inbox {
  ended = false
  #text = ''
  #wake = () => {}

  constructor(socket: Socket) {
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => {
      this.#text += text
      this.#wake()
    })
    const end = () => {
      this.ended = true
      socket.destroy()
      this.#wake()
    }
    socket.on('end', end).on('error', end).on('close', end)
  }

  async response(): Promise<RawResponse> {
    const head = await this.#through('\r\n\r\n')
    const [statusLine = '', ...lines] = head.trimEnd().split('\r\n')
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1])
    const headers = new Map<string, string[]>()
    for (const line of lines) {
      const at = line.indexOf(':')
      const name = line.slice(0, at).toLowerCase()
      headers.set(name, [...(headers.get(name) ?? []), line.slice(at + 1).trim()])
    }
    return { status, headers, body: await this.#body(status, headers) }
  }

  async #body(status: number, headers: ReadonlyMap<string, readonly string[]>): Promise<string> {
    if (status < 200 || status === 204 || status === 304) return ''
    if (headers.get('transfer-encoding')?.[0] === 'chunked') return this.#chunks()
    const [length] = headers.get('content-length') ?? []
    if (length !== undefined) return this.#take(Number(length))
    await this.#until(() => this.ended)
    return this.#text
  }

  async #chunks(): Promise<string> {
    let body = ''
    for (;;) {
      const size = Number.parseInt(await this.#through('\r\n'), 16)
      const piece = await this.#take(size + 2)
      if (size === 0) return body
      body += piece.slice(0, -2)
    }
  }

  async #through(mark: string): Promise<string> {
    await this.#until(() => this.#text.includes(mark))
    return this.#take(this.#text.indexOf(mark) + mark.length)
  }

  async #take(size: number): Promise<string> {
    await this.#until(() => this.#text.length >= size)
    const taken = this.#text.slice(0, size)
    this.#text = this.#text.slice(size)
    return taken
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.ended) throw new Error(`the connection ended in the middle of: ${JSON.stringify(this.#text)}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

/** A POST of JSON with these header lines besides the usual ones. */
export function post(lines: readonly string[], body = '{"amount":100}'): string {
  const head = ['POST /charges HTTP/1.1', 'Host: localhost', 'Content-Type: application/json', ...lines, `Content-Length: ${body.length}`]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

/** The same, with its body in pieces; `end: false` leaves the last one out. */
export function chunkedPost(lines: readonly string[], pieces: readonly string[], { end = true } = {}): string {
  const head = ['POST /charges HTTP/1.1', 'Host: localhost', 'Content-Type: application/json', ...lines, 'Transfer-Encoding: chunked']
  const chunks = [...pieces, ...(end ? [''] : [])].map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`)
  return `${head.join('\r\n')}\r\n\r\n${chunks.join('')}`
}
