import { once as eventOf } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface CuttingRelay {
  readonly port: number
  /** Connections are cut when the server begins to answer: so many of the next answers never arrive. */
  loseAnswers(count: number): void
  /** The next answer is cut off after its head. */
  loseNextBody(): void
  /** Cuts all connections that are open. */
  cutNow(): void
}

/** A relay between a client and a server that can lose answers. The server does not lose anything: it has done its work. */
export async function startRelay(target: number): Promise<CuttingRelay> {
  const clients = new Set<Socket>()
  let answersToLose = 0
  let bodyToLose = false

  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    clients.add(client)
    for (const socket of [client, upstream]) {
      socket.on('error', () => {})
      socket.on('close', () => {
        clients.delete(client)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (bytes) => upstream.write(bytes))
    upstream.on('data', (bytes) => {
      if (answersToLose > 0) {
        answersToLose -= 1
        client.resetAndDestroy()
      } else if (bodyToLose) {
        bodyToLose = false
        client.end(bytes.subarray(0, bytes.indexOf('\r\n\r\n') + 4))
      } else client.write(bytes)
    })
  })
  server.listen(0, '127.0.0.1')
  await eventOf(server, 'listening')
  const cutNow = () => {
    for (const client of clients) client.resetAndDestroy()
  }
  onTestFinished(() => {
    cutNow()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    loseAnswers(count) {
      answersToLose = count
    },
    loseNextBody() {
      bodyToLose = true
    },
    cutNow,
  }
}
