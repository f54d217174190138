import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface PostgresProxy {
  /** The address of the proxy, as a connection string. */
  readonly url: string
  /**
   * The next statement whose text matches reaches the server and is carried out, but its reply is swallowed and the
   * connection is cut: the caller cannot know what became of it. Resolves when that has happened.
   */
  swallowReplyTo(pattern: RegExp): Promise<void>
  /** Statements that match hang: neither they nor anything after them reaches the server, and no connection breaks. */
  blackHole(pattern: RegExp): void
  /** How many statements matched. */
  seen(pattern: RegExp): number
}

const simpleQuery = 0x51
const syncMessage = Buffer.from([0x53, 0, 0, 0, 4])
const readyForQuery = Buffer.from([0x5a, 0, 0, 0, 5])

/** A TCP proxy in front of a Postgres server that can lose replies. */
export async function startProxy(target: string): Promise<PostgresProxy> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  const statements: string[] = []
  let swallow: { pattern: RegExp; done(): void } | undefined
  let hole: RegExp | undefined

  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    let matched: (() => void) | undefined
    let swallowing = false
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (chunk) => {
      const text = chunk.toString('latin1')
      statements.push(text)
      if (swallow?.pattern.test(text)) {
        matched = swallow.done
        swallow = undefined
      }
      // Some drivers ask for the parameter types first: the statement runs with the message that ends in "Sync", or is a simple one.
      swallowing ||= matched !== undefined && (chunk[0] === simpleQuery || chunk.subarray(-5).equals(syncMessage))
      if (hole?.test(text)) client.pause()
      else upstream.write(chunk)
    })
    upstream.on('data', (chunk) => {
      if (!swallowing) return void client.write(chunk)
      if (!chunk.subarray(-6, -1).equals(readyForQuery)) return
      // The reply is complete, so the statement is committed.
      client.destroy()
      upstream.destroy()
      matched?.()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })

  const url = new URL(target)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    swallowReplyTo(pattern) {
      return new Promise<void>((resolve) => {
        swallow = { pattern, done: resolve }
      })
    },
    blackHole(pattern) {
      hole = pattern
    },
    seen: (pattern) => statements.filter((text) => pattern.test(text)).length,
  }
}
