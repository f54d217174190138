// Formats times, sizes and foreign texts.

import { inAscii } from '../core/json-text.js'

/** A time for people, in UTC: `2026-07-31 10:00:00Z`. */
export function moment(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')}Z`
}

/** A time for programs. Null for never. */
export function iso(ms: number | null): string | null {
  return ms === null || !Number.isFinite(ms) ? null : new Date(ms).toISOString()
}

const units: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1_000, 's'],
]

/** A duration in its two largest units: `17 ms`, `2.5 s`, `3m 12s`, `4d 3h`. */
export function lasting(ms: number): string {
  const length = Math.abs(ms)
  if (length < 999.5) return `${Math.round(length)} ms`
  if (length < 59_950) return `${(length / 1_000).toFixed(1)} s`
  const seconds = Math.round(length / 1_000) * 1_000
  const at = units.findIndex(([size]) => seconds >= size)
  const [size, name] = units[at] as [number, string]
  const [nextSize, nextName] = units[at + 1] ?? [1, '']
  const rest = Math.floor((seconds % size) / nextSize)
  return `${Math.floor(seconds / size)}${name}${rest > 0 ? ` ${rest}${nextName}` : ''}`
}

export function bytes(count: number): string {
  const names = ['B', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(names.length - 1, count < 1 ? 0 : Math.floor(Math.log10(count) / 3))
  const value = count / 1_000 ** power
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${names[power]}`
}

export function many(count: number, one: string, several = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : several}`
}

/** Characters that move the cursor, colour the terminal or reverse text: keys and reasons are foreign input. */
const unprintable = /[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g

export function printable(text: string): string {
  return text.replaceAll(unprintable, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** At most `width` characters, with an ellipsis if cut. */
export function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`
}

/** A word quoted for a shell. */
export function quoted(word: string): string {
  return /^[\w./:@%+=-]+$/.test(word) && !word.startsWith('-') ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** JSON with readable characters instead of escapes. The stored form is ASCII. */
export function legibleJson(json: string): string {
  const legible = json.replace(/\\(?:u([0-9a-f]{4})|.)/gis, (whole, digits?: string) => {
    const unit = Number.parseInt(digits ?? '0', 16)
    return unit < 0x80 ? whole : String.fromCharCode(unit)
  })
  return legible.replace(/\p{Surrogate}/gu, inAscii)
}

/** JSON that is safe on a terminal. */
export function jsonDocument(value: unknown): string {
  return `${printableJson(JSON.stringify(value, null, 2))}\n`
}

/** The same for JSON in pieces. */
export const printableJson = (text: string) =>
  text.replaceAll(
    /[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
