/** Waits for a condition, not for a time: asks again and again until it holds, and gives up loudly after a long while. */
export async function waitUntil<T>(what: string, condition: () => Promise<T> | T, deadlineMs = 30_000): Promise<NonNullable<T>> {
  const end = performance.now() + deadlineMs
  for (;;) {
    const value = await condition()
    if (value) return value
    if (performance.now() > end) throw new Error(`gave up waiting until ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
