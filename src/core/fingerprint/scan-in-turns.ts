import type { CanonicalScan } from './canonical-scan.js'

/** Two milliseconds or so. Higher: others wait longer. Lower: more bodies take more than one turn. */
export const workPerTurn = 400_000

interface Waiting {
  readonly scan: CanonicalScan
  resolve(): void
  reject(error: unknown): void
}

/** At most one for each request that was read. */
const waiting: Waiting[] = []

/**
 * Ends a scan that takes longer than others should wait. However many there are, one of them goes on in each turn of the event loop, and
 * for one slice.
 */
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
    // There is no memory for it.
    next.reject(error)
  }
  if (waiting.length > 0) setImmediate(takeTurn)
}
