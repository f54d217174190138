import { storeTimeout } from '../../core/errors.js'

interface Waiting {
  readonly bytes: number
  begin(): void
}

/** Limits the bytes in memory of concurrent work. Work that does not fit waits in order, until its caller's limit; work over the limit runs alone. */
export class ByteBudget {
  readonly #most: number
  #spent = 0
  readonly #waiting = new Set<Waiting>()

  constructor(most: number) {
    this.#most = most
  }

  async spend<T>(bytes: number, waitMs: number, work: () => Promise<T>): Promise<T> {
    if (this.#waiting.size > 0 || !this.#fits(bytes)) await this.#turn(bytes, waitMs)
    else this.#spent += bytes
    try {
      return await work()
    } finally {
      this.#spent -= bytes
      this.#beginNext()
    }
  }

  #fits(bytes: number): boolean {
    return this.#spent === 0 || this.#spent + bytes <= this.#most
  }

  #turn(bytes: number, waitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        bytes,
        begin: () => {
          clearTimeout(timer)
          resolve()
        },
      }
      const timer = setTimeout(() => {
        this.#waiting.delete(waiting)
        reject(storeTimeout())
        this.#beginNext()
      }, waitMs)
      this.#waiting.add(waiting)
    })
  }

  #beginNext(): void {
    for (const waiting of this.#waiting) {
      if (!this.#fits(waiting.bytes)) return
      this.#waiting.delete(waiting)
      this.#spent += waiting.bytes
      waiting.begin()
    }
  }
}
