import type { ReconcileSummary } from '../../reconcile/reconcile.js'
import { bytes, cut, lasting, many } from '../words.js'
import type { World } from '../world.js'

/** The progress so far. */
export interface Standing {
  readonly doneBytes: number
  /** Undefined if unknown: of standard input, of a query. */
  readonly totalBytes: number | undefined
  readonly elapsedMs: number
  readonly summary: Pick<ReconcileSummary, 'local' | 'foreign' | 'differs' | 'onlyLocal' | 'onlyForeign'>
}

const barWidth = 20

/** A bar with percentage, rate and time left if the size is known, else the counts so far. */
export function progressLine({ doneBytes, totalBytes, elapsedMs, summary }: Standing, width: number): string {
  const { local, foreign, differs, onlyLocal, onlyForeign } = summary
  const differences = many(differs + onlyLocal + onlyForeign, 'difference')
  if (totalBytes === undefined) {
    return cut(`${local.toLocaleString('en')} here, ${foreign.toLocaleString('en')} there, ${differences}`, width)
  }
  // A file may have grown meanwhile.
  const share = totalBytes > 0 ? Math.min(1, doneBytes / totalBytes) : 1
  const bar = '#'.repeat(Math.floor(share * barWidth)).padEnd(barWidth, '-')
  const percent = String(Math.floor(share * 100)).padStart(3)
  const bytesPerMs = doneBytes / elapsedMs
  const pace =
    elapsedMs > 0 && doneBytes > 0
      ? `  ${bytes(bytesPerMs * 1_000)}/s, ${lasting(Math.max(0, totalBytes - doneBytes) / bytesPerMs)} left`
      : ''
  return cut(`[${bar}] ${percent} %${pace}, ${differences}`, width)
}

/** A part of the work. */
export interface ProgressPart {
  /** Adds so many bytes. */
  step(bytes: number): void
  /** Completes it. */
  end(): void
}

export interface Progress {
  /** Adds a part, with its size if known. */
  part(bytes: number | undefined): ProgressPart
  /** Clears the line, so that other output can be printed. */
  clear(): void
}

const drawEveryMs = 250

const clearLine = '\r\x1b[K'

/** A line rewritten in place, on a terminal only. */
export function progressOn(world: World, summary: () => ReconcileSummary): Progress {
  const parts: { done: number; readonly total: number | undefined }[] = []
  const startedAt = world.now()
  // Some terminals report 0 columns.
  const width = (world.columns || 80) - 1
  let drawnAt = startedAt
  let isDrawn = false

  function draw(): void {
    const now = world.now()
    if (now - drawnAt < drawEveryMs) return
    drawnAt = now
    isDrawn = true
    const doneBytes = parts.reduce((sum, { done }) => sum + done, 0)
    const totalBytes = parts.reduce<number | undefined>(
      (sum, { total }) => (sum === undefined || total === undefined ? undefined : sum + total),
      0,
    )
    world.tell(`${clearLine}${progressLine({ doneBytes, totalBytes, elapsedMs: now - startedAt, summary: summary() }, width)}`)
  }

  return {
    part(total) {
      const part = { done: 0, total }
      parts.push(part)
      return {
        step(count) {
          part.done += count
          if (world.progress) draw()
        },
        end() {
          part.done = Math.max(part.done, total ?? 0)
        },
      }
    },
    clear() {
      if (isDrawn) world.tell(clearLine)
      isDrawn = false
    },
  }
}
