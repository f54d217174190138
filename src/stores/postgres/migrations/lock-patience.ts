/** How long DDL stands in the queue of a lock before it leaves it again: claims stand behind it for as long. */
const longestTryMs = 500

/** How migrations wait for locks: in short tries, with long pauses, and for a limited time in all. */
export class LockPatience {
  #tries = 0
  readonly #end: number

  constructor(totalMs: number) {
    this.#end = performance.now() + totalMs
  }

  get tryMs(): number {
    return Math.min(longestTryMs, 100 * 2 ** this.#tries)
  }

  get isOver(): boolean {
    return performance.now() >= this.#end
  }

  /** Four times as long as the try before it, so that claims wait a fifth of the time at most. */
  async pause(): Promise<void> {
    const pauseMs = this.tryMs * 4
    this.#tries += 1
    await this.sleep(pauseMs)
  }

  /** Not past the end, which allows one more try. */
  sleep(ms: number): Promise<void> {
    const jittered = ms * (0.75 + Math.random() / 2)
    return new Promise((resolve) => setTimeout(resolve, Math.max(0, Math.min(jittered, this.#end - performance.now()))))
  }
}
