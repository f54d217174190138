/** The subset of Web Locks that we need. */
interface Locks {
  request<T>(name: string, options: { signal: AbortSignal }, task: () => Promise<T>): Promise<T>
}

const busy = new Set<string>()

/**
 * A page that is being reloaded still has its locks for a moment: resume() waits a second. It counts turns of the event loop, because a page
 * that was busy runs a timer that is due before it hears that it has the lock.
 */
const patience = { turns: 4, turnMs: 250 }

/**
 * Does the task unless another tab or call is at it: then the answer is undefined. The browser gives back a tab's locks however it ends.
 * Without Web Locks this sees only its own page or process; then two may send the same, and the server does it once.
 * A new id is no other tab's: its lock is waited for however busy the page is.
 */
export async function alone<T>(id: string, task: () => Promise<T>, { isNew = false } = {}): Promise<T | undefined> {
  if (busy.has(id)) return undefined
  busy.add(id)
  const { locks } = (globalThis as { navigator?: { locks?: Locks } }).navigator ?? {}
  const giveUp = new AbortController()
  // Not the clock of the options: with a clock that stands still, the wait would not end.
  let timer: ReturnType<typeof setTimeout> | undefined
  const wait = (turns: number) => {
    timer = setTimeout(() => (turns > 1 ? wait(turns - 1) : giveUp.abort()), patience.turnMs)
  }
  let isOurs = false
  const act = () => {
    isOurs = true
    clearTimeout(timer)
    return task()
  }
  if (!isNew) wait(patience.turns)
  try {
    return await (locks ? locks.request(`oncekey:${id}`, { signal: giveUp.signal }, act) : act())
  } catch (error) {
    if (isOurs) throw error
    // Sandboxed frames may not have locks at all.
    return giveUp.signal.aborted ? undefined : act()
  } finally {
    busy.delete(id)
  }
}
