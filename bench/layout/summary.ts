import type { Round } from './round.js'

export interface Spread {
  median: number
  min: number
  max: number
}

export interface Summary {
  layout: string
  perSecond: Spread
  /** Throughput relative to the reference of the same round. */
  ratio: Spread
  /** Microseconds; null where the server's processes are out of sight. */
  backendCpuPerKey: Spread | null
  hotPercent: number | null
  walBytesPerKey: number
  fullPageImagesPerKey: number
  heapBytesPerKey: number
  indexBytesPerKey: number
  /** Of the table as it stands after the rounds, filled rows included; null when it was emptied before each round. */
  wholeTable: { rows: number; heapBytesPerKey: number; indexBytesPerKey: number } | null
  rounds: Round[]
}

export function spread(values: readonly number[]): Spread {
  const sorted = [...values].sort((left, right) => left - right)
  const middle = sorted.length / 2
  const median = ((sorted[Math.ceil(middle) - 1] as number) + (sorted[Math.floor(middle)] as number)) / 2
  return { median, min: sorted[0] as number, max: sorted.at(-1) as number }
}

export function summarise(layout: string, rounds: Round[], reference: readonly Round[], wholeTable: Summary['wholeTable'] = null): Summary {
  const total = (name: keyof Round) => rounds.reduce((sum, round) => sum + round[name], 0)
  const perKey = (name: keyof Round) => total(name) / total('keys')
  return {
    layout,
    perSecond: spread(rounds.map((round) => round.perSecond)),
    ratio: spread(rounds.map((round, index) => round.perSecond / (reference[index] as Round).perSecond)),
    backendCpuPerKey: Number.isNaN(total('backendCpuMs')) ? null : spread(rounds.map(cpuPerKey)),
    hotPercent: total('updates') > 0 ? (100 * total('hotUpdates')) / total('updates') : null,
    walBytesPerKey: perKey('walBytes'),
    fullPageImagesPerKey: perKey('fullPageImages'),
    heapBytesPerKey: perKey('heapBytes'),
    indexBytesPerKey: perKey('indexBytes'),
    wholeTable,
    rounds,
  }
}

function cpuPerKey({ backendCpuMs, keys }: Round) {
  return (1_000 * backendCpuMs) / keys
}
