let turn: Promise<void> | undefined
let hasEnded = false

/** Resolves at the end of this turn of the event loop, for all who ask in it: what each of them does next, they do one behind the other. */
export function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined
      hasEnded = true
      // After all who waited have done what they do next: Node's own queue comes behind that of promises.
      queueMicrotask(() => process.nextTick(goOn))
      resolve()
    })
  })
  return turn
}

function goOn(): void {
  hasEnded = false
}

/**
 * Calls back when nothing more can come in this turn: at its end, or behind those who waited for that and go on now. For them it would be
 * one more turn, in which the next requests are read first.
 */
export function atEndOfTurn(callback: () => void): void {
  if (hasEnded) process.nextTick(callback)
  else setImmediate(callback)
}
