import type { Answer } from '../../core/answer.js'
import { type Callback, isBodiless } from './written-bytes.js'

/** What a handler writes. All of it is kept up to the cap; beyond that it need not be held back, and flows, but for its last piece. */
export class HeldBody {
  readonly #maxBytes: number
  readonly #flow: (bytes: Uint8Array, done: Callback | undefined) => boolean
  #pieces: Uint8Array[] = []
  #size = 0

  /** `flow` gets what is to be sent, and says whether there is room for more. */
  constructor(maxBytes: number, flow: (bytes: Uint8Array, done: Callback | undefined) => boolean) {
    this.#maxBytes = maxBytes
    this.#flow = flow
  }

  write(piece: Uint8Array, done?: Callback): boolean {
    this.#size += piece.length
    // Whoever is told that it is written may use its memory for something else.
    if (piece.length > 0) this.#pieces.push(done ? Buffer.from(piece) : piece)
    const goes = this.#size > this.#maxBytes ? this.#pieces.slice(0, -1) : []
    if (goes.length > 0) {
      this.#pieces = this.#pieces.slice(-1)
      return this.#flow(Buffer.concat(goes), done)
    }
    if (done) process.nextTick(done)
    return true
  }

  /** What has not been sent. */
  rest(): Buffer {
    return Buffer.concat(this.#pieces)
  }

  /** As it is stored. */
  kept(status: number, headers: Answer['headers']): Answer {
    if (isBodiless(status)) return { status, headers, body: new Uint8Array() }
    if (this.#size > this.#maxBytes) return { status, headers, body: new Uint8Array(), omittedBytes: this.#size }
    return { status, headers, body: this.rest() }
  }
}
