import pg from 'pg'

/** As many round trips as a request makes. */
const roundTrips = 4

/**
 * Watches how long plain round trips to the database take in this process, on a connection of their own. On a machine that does other things,
 * too, every request takes that much longer, whatever is frozen or locked.
 */
export async function watchMachine(url: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  let isOver = false
  let worstMs = 0
  const watch = async () => {
    while (!isOver) {
      const began = performance.now()
      for (let trip = 0; trip < roundTrips; trip += 1) await client.query('select')
      worstMs = Math.max(worstMs, performance.now() - began)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
  const watching = watch()
  return {
    /** Ends the watch, and returns the longest time. */
    async end(): Promise<number> {
      isOver = true
      await watching
      await client.end()
      return Math.round(worstMs)
    },
  }
}

/** Watches how late timers of this process fire, where no database can be asked: what the machine does besides delays other processes alike. */
export function watchTimers() {
  let worstMs = 0
  let dueAt = performance.now() + 10
  const timer = setInterval(() => {
    worstMs = Math.max(worstMs, performance.now() - dueAt)
    dueAt = performance.now() + 10
  }, 10)
  return {
    /** Ends the watch, and returns the longest delay. */
    end(): number {
      clearInterval(timer)
      return Math.round(worstMs)
    },
  }
}
