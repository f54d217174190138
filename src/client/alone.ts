/** The subset of Web Locks that we need. */
interface Locks {
  request<T>(name: string, options: { signal: AbortSignal }, task: () => Promise<T>): Promise<T>
}

const busy = new Set<string>()

/** A page that is being reloaded still has its locks for a moment. */
const patienceMs = 1_000

/**
 * Does the task unless another tab or call is at it: then the answer is undefined. The browser gives back a tab's locks however it ends.
 * Without Web Locks this sees only its own page or process; then two may send the same, and the server does it once.
 */
export async function alone<T>(id: string, task: () => Promise<T>): Promise<T | undefined> {
  if (busy.has(id)) return undefined
  busy.add(id)
  const { locks } = (globalThis as { navigator?: { locks?: Locks } }).navigator ?? {}
  const patience = new AbortController()
  // Not the clock of the options: with a clock that stands still, nobody would ever give up.
  const timer = setTimeout(() => patience.abort(), patienceMs)
  let isOurs = false
  const act = () => {
    isOurs = true
    clearTimeout(timer)
    return task()
  }
  try {
    return await (locks ? locks.request(`oncekey:${id}`, { signal: patience.signal }, act) : act())
  } catch (error) {
    if (isOurs) throw error
    // Frames without an origin of their own may not have locks at all.
    return patience.signal.aborted ? undefined : act()
  } finally {
    busy.delete(id)
  }
}
