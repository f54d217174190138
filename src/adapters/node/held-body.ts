import type { Answer } from '../../core/answer.js'
import { type Callback, isBodiless } from './written-bytes.js'

const noBytes = new Uint8Array()

/** What a handler writes. All of it is kept up to the cap; beyond that it need not be held back, and flows, but for its last piece. */
export class HeldBody {
  readonly #maxBytes: number
  readonly #flow: (bytes: Uint8Array, done: Callback | undefined) => boolean
  #pieces: Uint8Array[] = []
  #size = 0

  constructor(maxBytes: number, flow: (bytes: Uint8Array, done: Callback | undefined) => boolean) {
    this.#maxBytes = maxBytes
    this.#flow = flow
  }

  /** Says whether there is room for more. `isOurs`: no other code can change these bytes. Others are copied: what is stored now must be what is sent then. */
  write(piece: Uint8Array, isOurs: boolean, done?: Callback): boolean {
    this.#size += piece.length
    if (piece.length > 0) this.#pieces.push(isOurs ? piece : Buffer.from(piece))
    if (this.#size > this.#maxBytes && this.#pieces.length > 1) {
      const last = this.#pieces.pop() as Uint8Array
      const flowing = this.rest()
      this.#pieces = [last]
      return this.#flow(flowing, done)
    }
    if (done) process.nextTick(done)
    return true
  }

  /** What has not been sent. */
  rest(): Uint8Array {
    if (this.#pieces.length > 1) this.#pieces = [Buffer.concat(this.#pieces)]
    return this.#pieces[0] ?? noBytes
  }

  /** As it is stored. */
  kept(status: number, headers: Answer['headers']): Answer {
    // Node would send that of a 205, and a replay would have none.
    if (isBodiless(status)) this.#pieces = []
    else if (this.#size > this.#maxBytes) return { status, headers, body: noBytes, omittedBytes: this.#size }
    return { status, headers, body: this.rest() }
  }
}
