import type { CanonicalScan } from './canonical-scan.js'

/** About two milliseconds. Higher: others wait longer. Lower: more bodies take more than one turn. */
export const workPerTurn = 400_000

interface Waiting {
  readonly scan: CanonicalScan
  resolve(): void
  reject(error: unknown): void
}

const waiting: Waiting[] = []

/** Completes a long scan. Of all waiting scans, one advances by one slice in each turn of the event loop. */
export function scanInTurns(scan: CanonicalScan): Promise<void> {
  return new Promise((resolve, reject) => {
    if (waiting.push({ scan, resolve, reject }) === 1) setImmediate(takeTurn)
  })
}

function takeTurn(): void {
  const next = waiting.shift() as Waiting
  try {
    if (next.scan.advance(workPerTurn)) next.resolve()
    else waiting.push(next)
  } catch (error) {
    // Out of memory.
    next.reject(error)
  }
  if (waiting.length > 0) setImmediate(takeTurn)
}
