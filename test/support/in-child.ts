// What a child process and its test say to each other, from the child's side.

/** The settings that the test passed. */
export function childSettings<T>(): T {
  return JSON.parse(process.argv[2] as string) as T
}

/** Tells the test something. */
export function tellParent(message: unknown): void {
  process.send?.(message)
}

/** Waits for the test's next word. */
export function wordFromParent(): Promise<unknown> {
  return new Promise((resolve) => process.once('message', resolve))
}
