import { OncekeyError } from './errors.js'

type Unit = 'ms' | 's' | 'm' | 'h' | 'd' | 'w'

/** `'72h'`, `'1.5s'`, `'7d'`, or a number of milliseconds. */
export type Duration = number | `${number}${Unit}`

const unitMs: Record<Unit, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }

const pattern = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/

/** A duration beyond a century is a mistake in the unit; use `'forever'` instead. */
const longestMs = 36_525 * unitMs.d

/** Whole milliseconds of a duration. `name` is the option, for the error message. */
export function durationMs(duration: Duration, name: string): number {
  const ms = Math.round(typeof duration === 'number' ? duration : parse(duration))
  if (ms >= 1 && ms <= longestMs) return ms
  throw new OncekeyError(
    'duration_invalid',
    `${name} is ${show(duration)}: give a number of milliseconds or a text such as '90s', '72h' or '7d', ` +
      'of at least 1 ms and at most 100 years.',
  )
}

function parse(text: unknown): number {
  const match = typeof text === 'string' ? pattern.exec(text) : null
  return match ? Number(match[1]) * unitMs[match[2] as Unit] : Number.NaN
}

function show(value: unknown): string {
  if (typeof value === 'object' && value !== null) return 'an object'
  return typeof value === 'string' ? `'${value}'` : String(value)
}
