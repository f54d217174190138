import { connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

/** What a half-open connection loses: everything in both directions, or what the server says. */
export type Lost = 'everything' | 'replies'

export interface SilentProxy {
  /** The address of the proxy, as a connection string. */
  readonly url: string
  /** The connections that are open now become half-open. New ones work. */
  silence(lost: Lost): void
  /** All connections become half-open, and those that are opened from now on too, until the returned function is called: then new ones work. */
  blackout(): () => void
  /** The connection that sends the next statement that matches becomes half-open with it. Resolves when that has happened. */
  silenceAt(pattern: RegExp, lost: Lost): Promise<void>
  /**
   * Calls `freeze` when the next statement that matches has come, before it reaches the server, and then reads no more replies of that
   * connection, as the kernel of a frozen client. Resolves when that has happened.
   */
  freezeAt(pattern: RegExp, freeze: () => void): Promise<void>
  /** Reads the replies of frozen connections again. */
  thaw(): void
  /** The server ends the sessions of half-open connections, as its keepalive would hours later. */
  serverNotices(): void
  /** How many bytes the server has sent so far. */
  repliedBytes(): number
}

interface Link {
  readonly client: Socket
  readonly upstream: Socket
  lost: Lost | undefined
  isFrozen: boolean
}

interface Trap {
  readonly pattern: RegExp
  spring(link: Link): void
}

/** Statements begin their message, and no statement of ours is longer. What follows are values. */
const longestStatement = 16_384

/**
 * A TCP proxy in front of a Postgres server that makes connections half-open: nothing more comes through, and no side is told. It closes no
 * socket while it is silent. A client that closes such a connection leaves its session behind in the server, with its locks.
 */
export async function startSilentProxy(target: string): Promise<SilentProxy> {
  const { hostname, port } = new URL(target)
  const links = new Set<Link>()
  const traps = new Set<Trap>()
  let isDark = false
  let replied = 0

  const server = createServer((client) => {
    const link: Link = { client, upstream: connect(Number(port), hostname), lost: isDark ? 'everything' : undefined, isFrozen: false }
    const { upstream } = link
    links.add(link)
    for (const socket of [client, upstream]) socket.setNoDelay(true).on('error', () => {})
    client.on('data', (chunk) => {
      springTraps(link, chunk)
      if (link.lost !== 'everything') pass(chunk, client, upstream)
    })
    upstream.on('data', (chunk) => {
      replied += chunk.length
      if (!link.lost) pass(chunk, upstream, client)
    })
    client.on('close', () => {
      if (!link.lost) upstream.destroy()
      forget(link)
    })
    upstream.on('close', () => {
      if (!link.lost) client.destroy()
      forget(link)
    })
  })

  function pass(chunk: Buffer, from: Socket, to: Socket): void {
    if (to.write(chunk)) return
    from.pause()
    to.once('drain', () => from.resume())
  }

  function springTraps(link: Link, chunk: Buffer): void {
    if (traps.size === 0) return
    const text = chunk.toString('latin1', 0, longestStatement)
    for (const trap of traps) {
      if (!trap.pattern.test(text)) continue
      traps.delete(trap)
      trap.spring(link)
    }
  }

  function trap(pattern: RegExp, spring: (link: Link) => void): Promise<void> {
    return new Promise((resolve) => {
      traps.add({
        pattern,
        spring(link) {
          spring(link)
          resolve()
        },
      })
    })
  }

  function silence(lost: Lost): void {
    for (const link of links) link.lost ??= lost
  }

  function forget(link: Link): void {
    if (link.client.destroyed && link.upstream.destroyed) links.delete(link)
  }

  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const { client, upstream } of links) for (const socket of [client, upstream]) socket.destroy()
    server.close()
  })

  const url = new URL(target)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    silence,
    blackout() {
      isDark = true
      silence('everything')
      return () => {
        isDark = false
      }
    },
    silenceAt: (pattern, lost) =>
      trap(pattern, (link) => {
        link.lost = lost
      }),
    freezeAt: (pattern, freeze) =>
      trap(pattern, (link) => {
        freeze()
        link.isFrozen = true
        link.upstream.pause()
      }),
    thaw() {
      for (const link of links) if (link.isFrozen) link.upstream.resume()
    },
    serverNotices() {
      for (const { lost, upstream } of links) if (lost) upstream.destroy()
    },
    repliedBytes: () => replied,
  }
}
