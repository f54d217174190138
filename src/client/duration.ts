import { IdempotentFetchError } from './client-error.js'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** `'90s'`, `'23h'`, `'7d'`, or a number of milliseconds. */
export type Duration = number | `${number}${keyof typeof unitMs}`

/** Milliseconds of a duration. `name` is the option it came from, for the error's sentence. */
export function durationMs(duration: Duration, name: string): number {
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(String(duration)) ?? []
  const ms = typeof duration === 'number' ? duration : Number(amount) * unitMs[unit as keyof typeof unitMs]
  if (ms >= 1 && Number.isFinite(ms)) return ms
  throw new IdempotentFetchError('option_invalid', `${name} is ${duration}: give milliseconds, at least 1, or '23h'.`)
}
