import type { Answer, HeaderPair } from '../../core/answer.js'

/** A handler's response, read up to the cap. */
export interface CapturedResponse {
  /** What the handler answered. If the body flows, only once it has come to its end. */
  readonly answer: Promise<Answer>
  /** The response as it goes out, with these headers where it has none of that name. */
  deliver(extra: Answer['headers']): Response
  /** There if the body is too large to be kept: it flows already, but for its last piece. */
  readonly flow?: {
    readonly response: Response
    /** Lets the last piece go, or breaks the response off. */
    end(whole: boolean): void
  }
}

/** Reads a response. `baseline` are headers that were there before the handler, and will be at a replay. */
export async function captureResponse(response: Response, baseline: Headers, maxBytes: number): Promise<CapturedResponse> {
  const { status, statusText, headers } = response
  const changed = changedHeaders(headers, baseline)
  const reader = response.body?.getReader()
  const pieces: Uint8Array[] = []
  let size = 0
  while (reader) {
    const { done, value } = await reader.read()
    if (done) break
    pieces.push(value)
    size += value.length
    if (size > maxBytes) return flowing(response, changed, reader, pieces, size)
  }
  const body = Buffer.concat(pieces)
  return {
    answer: Promise.resolve({ status, headers: changed, body }),
    deliver: (extra) => new Response(hasBody(status) ? body : null, { status, statusText, headers: withExtra(headers, extra) }),
  }
}

function flowing(
  { status, statusText, headers }: Response,
  changed: HeaderPair[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
  pieces: Uint8Array[],
  sizeSoFar: number,
): CapturedResponse {
  let size = sizeSoFar
  let last = pieces.pop() as Uint8Array
  let resolve!: (answer: Answer) => void
  let reject!: (error: unknown) => void
  const answer = new Promise<Answer>((...settle) => {
    ;[resolve, reject] = settle
  })
  answer.catch(() => {})
  let end!: (whole: boolean) => void
  const ended = new Promise<boolean>((settle) => {
    end = settle
  })

  /** The piece before the one that was just read; undefined at the end. */
  async function nextPiece(): Promise<Uint8Array | undefined> {
    try {
      const { done, value } = await reader.read()
      if (done) {
        resolve({ status, headers: changed, body: new Uint8Array(), omittedBytes: size })
        return undefined
      }
      size += value.length
      const piece = last
      last = value
      return piece
    } catch (error) {
      reject(error)
      throw error
    }
  }

  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (const piece of pieces) controller.enqueue(piece)
    },
    async pull(controller) {
      const piece = await nextPiece()
      if (piece) return controller.enqueue(piece)
      if (!(await ended)) return controller.error(new Error('The answer could not be stored.'))
      controller.enqueue(last)
      controller.close()
    },
    /** The client has gone, the work goes on: the answer comes to its end unheard. */
    async cancel() {
      while (await nextPiece()) {
        // Dropped.
      }
    },
  })
  const response = new Response(body, { status, statusText, headers })
  return { answer, deliver: () => response, flow: { response, end } }
}

/** The response for an answer of ours, on top of the headers that are there in any case. */
export function responseOf({ status, headers, body }: Answer, baseline: Headers): Response {
  const merged = new Headers(baseline)
  for (const [name] of headers) merged.delete(name)
  for (const [name, value] of headers) merged.append(name, value)
  return new Response(hasBody(status) ? Buffer.from(body) : null, { status, headers: merged })
}

/** By the Fetch standard a response of these has no body at all. */
const hasBody = (status: number) => status !== 204 && status !== 205 && status !== 304

function changedHeaders(headers: Headers, baseline: Headers): HeaderPair[] {
  // The id of a request is told again at its replays, whoever set it.
  return [...headers].filter(([name, value]) => name === 'request-id' || name === 'set-cookie' || baseline.get(name) !== value)
}

function withExtra(headers: Headers, extra: Answer['headers']): Headers {
  const merged = new Headers(headers)
  for (const [name, value] of extra) if (!merged.has(name)) merged.set(name, value)
  return merged
}
