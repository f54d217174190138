let turn: Promise<void> | undefined

/** Resolves at the end of this turn of the event loop, for all who ask in it: what each of them does next, they do one behind the other. */
export function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined
      resolve()
    })
  })
  return turn
}
