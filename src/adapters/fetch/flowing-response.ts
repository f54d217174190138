import type { Pieces } from './pieces.js'

/** A response that is too large to be kept. It flows as fast as its client reads, but for its last piece. */
export interface FlowingResponse {
  readonly response: Response
  /** Of the whole body, once it has come to its end. Rejects if the handler's stream fails. */
  readonly size: Promise<number>
  /** Lets the last piece go, or breaks the response off. */
  end(whole: boolean): void
}

export interface FlowOptions {
  /** What was read of it so far: one piece at least. */
  readonly pieces: readonly Uint8Array<ArrayBuffer>[]
  readonly rest: Pieces
  /** Aborts when the client has gone: some servers just leave the stream where it is then. */
  readonly clientGone: AbortSignal | undefined
}

export function flow({ status, statusText, headers }: Response, { pieces, rest, clientGone }: FlowOptions): FlowingResponse {
  let last = pieces.at(-1) as Uint8Array<ArrayBuffer>
  let soFar = pieces.reduce((sum, { length }) => sum + length, 0)
  const size = deferred<number>()
  const ended = deferred<boolean>()
  let controller!: ReadableStreamDefaultController<Uint8Array>
  let draining: Promise<void> | undefined
  let left = false

  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
      for (const piece of pieces.slice(0, -1)) controller.enqueue(piece)
    },
    async pull() {
      // Not sooner: whoever still reads must not take a part for the whole, and who does not should not hear of it.
      if (left) throw clientGone?.reason
      const piece = await pieceBefore()
      if (piece) return controller.enqueue(piece)
      if (!(await ended.promise)) return
      controller.enqueue(last)
      controller.close()
    },
    cancel: drain,
  })

  clientGone?.addEventListener('abort', leave, { once: true })
  if (clientGone?.aborted) leave()

  return {
    response: new Response(body, { status, statusText, headers }),
    size: size.promise,
    end(whole) {
      clientGone?.removeEventListener('abort', leave)
      ended.resolve(whole)
      // The client must not take what it has for the whole, nor wait for the rest.
      if (!whole) controller.error(new Error('The answer was broken off: it could not be stored.'))
    },
  }

  /** Reads on, and gives the piece before the one that was read; undefined at the end. */
  async function pieceBefore(): Promise<Uint8Array | undefined> {
    try {
      const next = await rest.next()
      if (!next) {
        size.resolve(soFar)
        return undefined
      }
      soFar += next.length
      const piece = last
      last = next
      return piece
    } catch (error) {
      size.reject(error)
      throw error
    }
  }

  function leave(): void {
    left = true
    drain()
  }

  /** The client has gone, the work goes on: the answer comes to its end unheard. */
  function drain(): Promise<void> {
    draining ??= (async () => {
      try {
        while (await pieceBefore()) {
          // Dropped.
        }
      } catch {
        // Told by `size`.
      }
    })()
    return draining
  }
}

function deferred<T>() {
  let resolve!: (value: T) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<T>((...settle) => {
    ;[resolve, reject] = settle
  })
  return { promise, resolve, reject }
}
