let turn: Promise<void> | undefined

/** Resolves at the end of this turn of the event loop. All callers of one turn continue in order. */
export function endOfTurn(): Promise<void> {
  turn ??= new Promise((resolve) => {
    setImmediate(() => {
      turn = undefined
      resolve()
    })
  })
  return turn
}
