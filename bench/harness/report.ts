import { type Spread, spread } from '../layout/summary.js'
import type { Group, Sample } from './contender.js'

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

export function shown(value: Spread | null, digits = 2): string {
  if (!value) return '–'
  const { median, min, max } = value
  return `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`
}

/** One number of each round; null unless all rounds have it. */
export function column(samples: readonly Sample[] | undefined, name: keyof Sample): Spread | null {
  const values = samples?.map((sample) => sample[name]) ?? []
  return values.length > 0 && values.every((value) => value !== null) ? spread(values as number[]) : null
}

/** How one contender's number relates to another's, within each round. */
export function ratio(group: Group | undefined, one: string, other: string, name: keyof Sample = 'perSecond'): Spread | null {
  return within(group, [one, other], name, ([own, others]) => (own as number) / (others as number))
}

/** By how much one contender's number is above another's, within each round. */
export function added(group: Group | undefined, one: string, other: string, name: keyof Sample): Spread | null {
  return within(group, [one, other], name, ([own, others]) => (own as number) - (others as number))
}

/** What comes out of the same number of some contenders, round by round; null unless all rounds have it of all of them. */
export function within(
  group: Group | undefined,
  contenders: readonly string[],
  name: keyof Sample,
  of: (values: readonly number[]) => number,
): Spread | null {
  const samples = contenders.map((contender) => group?.samples[contender] ?? [])
  const rounds = Math.min(...samples.map(({ length }) => length))
  const values = Array.from({ length: rounds }, (_, round) => of(samples.map((own) => own[round]?.[name] ?? Number.NaN)))
  return values.length > 0 && values.every(Number.isFinite) ? spread(values) : null
}

export function groupTable(group: Group): string {
  const { title, reference, samples } = group
  const head = ['', `ratio to ${reference}`, 'per second', 'p50 ms', 'p99 ms', 'own CPU µs', 'server CPU µs']
  const rows = Object.entries(samples).map(([name, own]) => [
    name,
    `**${shown(ratio(group, name, reference))}**`,
    shown(column(own, 'perSecond'), 0),
    shown(column(own, 'p50Ms')),
    shown(column(own, 'p99Ms')),
    shown(column(own, 'clientCpuMicros'), 1),
    shown(column(own, 'serverCpuMicros'), 1),
  ])
  return `### ${title}\n\n${table(head, rows)}\n`
}
