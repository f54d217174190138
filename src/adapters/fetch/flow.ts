import type { Pieces } from './pieces.js'

/** A response that is too large to be kept. It flows as fast as its client reads, except for its last piece. */
export interface FlowingResponse {
  readonly response: Response
  /** Of the whole body, once it has come to its end. Rejects if the handler's stream fails. */
  readonly size: Promise<number>
  /** Lets the last piece go, or breaks the response off. */
  end(whole: boolean): void
}

/** A response that has begun, and the rest of its body. */
interface Begun {
  readonly first: Uint8Array
  readonly last: Uint8Array
  readonly pieces: Pieces
  /** Aborts when the client has gone: some servers leave the stream where it is then. */
  readonly clientGone: AbortSignal | undefined
}

export function flow({ status, statusText, headers }: Response, { first, last, pieces, clientGone }: Begun): FlowingResponse {
  let bytes = first.length + last.length
  let isLeft = false
  let end = (_: boolean) => {}
  const ended = new Promise<boolean>((resolve) => {
    end = resolve
  })
  let settle = (_: number) => {}
  let fail = (_: unknown) => {}
  const size = new Promise<number>((resolve, reject) => {
    settle = resolve
    fail = reject
  })
  let controller!: ReadableStreamDefaultController<Uint8Array>

  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
      if (first.length > 0) controller.enqueue(first)
    },
    async pull() {
      // Not sooner: a client that still reads must not take a part for the whole, and one that does not need not hear of it.
      if (isLeft) throw clientGone?.reason
      const piece = await advance()
      if (piece) return controller.enqueue(piece)
      if (!(await ended)) return
      controller.enqueue(last)
      controller.close()
    },
    cancel: drain,
  })
  if (clientGone?.aborted) leave()
  else clientGone?.addEventListener('abort', leave, { once: true })

  return {
    response: new Response(body, { status, statusText, headers }),
    size,
    end(whole) {
      clientGone?.removeEventListener('abort', leave)
      end(whole)
      // The client must not take what it has for the whole, nor wait for the rest.
      if (!whole) controller.error(new Error('The answer was broken off: it could not be stored.'))
    },
  }

  /** Reads a piece, and returns the one before it; undefined at the end. */
  async function advance(): Promise<Uint8Array | undefined> {
    try {
      const next = await pieces.next()
      if (!next) {
        settle(bytes)
        return undefined
      }
      bytes += next.length
      const before = last
      last = next
      return before
    } catch (error) {
      // Each read of a broken stream fails: a client that goes now is another one.
      fail(error)
      throw error
    }
  }

  function leave(): void {
    isLeft = true
    void drain()
  }

  /** The client has gone, the work goes on: the answer comes to its end unheard. `size` reports an error. */
  async function drain(): Promise<void> {
    try {
      while (await advance());
    } catch {}
  }
}
