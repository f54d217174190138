import { waitUntil } from '../support/wait-until.js'

/** A place where whoever comes by waits while it is shut. */
export interface Gate {
  shut(): void
  open(): void
  pass(): Promise<void>
  /** Waits until so many stand at the gate. */
  untilWaiting(count?: number): Promise<void>
}

export function gate(): Gate {
  let isShut = false
  let waiting: (() => void)[] = []
  return {
    shut() {
      isShut = true
    },
    open() {
      isShut = false
      for (const goOn of waiting) goOn()
      waiting = []
    },
    pass: () => (isShut ? new Promise<void>((resolve) => waiting.push(resolve)) : Promise.resolve()),
    async untilWaiting(count = 1) {
      await waitUntil(`${count} wait at the gate`, () => waiting.length >= count)
    },
  }
}
