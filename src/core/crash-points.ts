import { safely } from './thrown-text.js'

/** Named places where a test can end the process: before and after every statement, commit and call. Unarmed, each costs one comparison. */
let strike: ((point: string) => void) | undefined

export function crashPoint(point: string): void {
  if (strike) strike(point)
}

/** Arms all crash points; the returned function disarms them. The hook kills the process, throws `SimulatedCrash`, or returns. */
export function armCrashPoints(hook: (point: string) => void): () => void {
  strike = hook
  return () => {
    if (strike === hook) strike = undefined
  }
}

/** Simulates the death of a process: code that catches it does nothing more for the run. No release, no finish, no heartbeat. */
export class SimulatedCrash extends Error {
  override readonly name = 'SimulatedCrash'

  constructor(readonly point: string) {
    super(`the process ends at ${point}`)
  }
}

export function isSimulatedCrash(error: unknown): error is SimulatedCrash {
  return safely(() => error instanceof Error && error.name === 'SimulatedCrash', false)
}
