import { connect, createServer, type Socket } from 'node:net'

/** What is done to a reply of Redis on its way to the client. */
export type ReplyFault = 'none' | 'delay' | 'drop' | 'duplicate' | 'truncate' | 'reorder' | 'damage'

export interface RedisProxy {
  readonly port: number
  /** How often each was done. */
  readonly done: Readonly<Record<ReplyFault, number>>
  /** Cuts all connections; clients come again. */
  cut(): void
  stop(): Promise<void>
}

const shiftedMs = 100

/** A TCP proxy in front of a Redis server that does to each reply what `choose` says. It goes on while the server is away. */
export async function startRedisProxy(target: number, choose: () => ReplyFault): Promise<RedisProxy> {
  const sockets = new Set<Socket>()
  const done = { none: 0, delay: 0, drop: 0, duplicate: 0, truncate: 0, reorder: 0, damage: 0 }

  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    /** Commands that have no reply yet. More replies than commands are no protocol any more, and clients die of it. */
    let owed = 0
    const commands = frames(() => {
      owed += 1
    })
    client.on('data', (chunk) => {
      commands(chunk)
      upstream.write(chunk)
    })
    const answer = (reply: Buffer) => {
      if (owed === 0) return
      owed -= 1
      client.write(reply)
    }
    /** From now on each reply is taken for another command's. No client finds out: it is let go on like that for a while. */
    const shifted = () => void setTimeout(() => client.destroy(), shiftedMs)
    let heldBack: Buffer | undefined
    // Replies that are late make all later ones late, as on a slow network; reordered ones do not.
    let line = Promise.resolve()
    const pass = (reply: Buffer) => {
      const fault = choose()
      done[fault] += 1
      if (fault === 'drop' || fault === 'duplicate') shifted()
      if (fault === 'drop') return
      if (fault === 'reorder' && !heldBack) {
        heldBack = reply
        return
      }
      if (fault === 'delay') line = line.then(() => new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 40)))
      const late = heldBack
      heldBack = undefined
      line = line.then(() => {
        if (fault === 'truncate') {
          client.end(reply.subarray(0, Math.ceil(reply.length / 2)))
          upstream.destroy()
          return
        }
        answer(fault === 'damage' ? damaged(reply) : reply)
        if (fault === 'duplicate') answer(reply)
        if (late) answer(late)
      })
    }
    upstream.on('data', frames(pass))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port: (server.address() as { port: number }).port,
    done,
    cut,
    async stop() {
      cut()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** Hands on what arrives command by command, or reply by reply: in this protocol they look the same. */
function frames(take: (frame: Buffer) => void): (chunk: Buffer) => void {
  let received = Buffer.alloc(0)
  return (chunk) => {
    received = Buffer.concat([received, chunk])
    for (let end = frameEnd(received, 0); end > 0; end = frameEnd(received, 0)) {
      take(received.subarray(0, end))
      received = received.subarray(end)
    }
  }
}

/** One byte of what it says is another one; its form stays. */
function damaged(reply: Buffer): Buffer {
  const copy = Buffer.from(reply)
  const from = copy.indexOf('\r\n') + 2
  if (copy[0] === 0x24 && copy.length > from + 2) {
    const at = from + Math.floor(Math.random() * (copy.length - from - 2))
    copy[at] = (copy[at] as number) ^ (1 << Math.floor(Math.random() * 8))
  }
  return copy
}

const text = (byte: string) => byte.charCodeAt(0)
const sized = new Set(['$', '=', '!'].map(text))
const lists = new Map([
  [text('*'), 1],
  [text('~'), 1],
  [text('>'), 1],
  [text('%'), 2],
])

/** Where the frame that begins at `from` ends, in either version of the protocol; 0 if not all of it is there yet. */
function frameEnd(bytes: Buffer, from: number): number {
  const lineEnd = bytes.indexOf('\r\n', from)
  if (lineEnd < 0) return 0
  const kind = bytes[from] as number
  const next = lineEnd + 2
  const count = Number(bytes.toString('latin1', from + 1, lineEnd))
  if (sized.has(kind)) {
    const end = count < 0 ? next : next + count + 2
    return end <= bytes.length ? end : 0
  }
  const perMember = lists.get(kind)
  if (perMember === undefined) return next
  let end = next
  for (let member = 0; member < count * perMember; member += 1) {
    end = frameEnd(bytes, end)
    if (end === 0) return 0
  }
  return end
}
