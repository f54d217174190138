import { connect, createServer, type Server, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** A way to the database that can be cut and mended. */
export interface Way {
  readonly url: string
  /** Breaks every connection, and lets none through. */
  cut(): void
  mend(): void
  /** How many have tried in vain. */
  refused(): number
}

export async function wayTo(target: string): Promise<Way> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let isCut = false
  let refused = 0
  const server: Server = createServer((client) => {
    if (isCut) {
      refused += 1
      client.destroy()
      return
    }
    const upstream = connect(Number(port), hostname)
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
      socket.pipe(other)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  onTestFinished(() => {
    destroyAll()
    server.close()
  })

  const url = new URL(target)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    cut() {
      isCut = true
      destroyAll()
    },
    mend() {
      isCut = false
    },
    refused: () => refused,
  }
}
