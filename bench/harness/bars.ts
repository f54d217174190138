import type { Spread } from '../layout/summary.js'
import { shown, table } from './report.js'

export interface Bar {
  readonly what: string
  readonly least?: number
  readonly most?: number
  /** Null: not measured in this run. */
  readonly measured: Spread | null
}

export function verdictOn({ least, most, measured }: Bar): 'met' | 'missed' | 'not measured' {
  if (!measured) return 'not measured'
  return (least === undefined || measured.median >= least) && (most === undefined || measured.median <= most) ? 'met' : 'missed'
}

export function barsTable(bars: readonly Bar[]): string {
  const measured = bars.filter((bar) => bar.measured)
  const rows = measured.map((bar) => [
    bar.what,
    bar.least === undefined ? `≤ ${bar.most}` : `≥ ${bar.least}`,
    shown(bar.measured),
    verdictOn(bar) === 'missed' ? '**missed**' : verdictOn(bar),
  ])
  const rest = `${bars.length - measured.length} more bars were not measured in this run.`
  const shownBars = rows.length > 0 ? `### Bars\n\n${table(['within a round', 'bar', 'measured', ''], rows)}\n\n` : ''
  return `${shownBars}${measured.length < bars.length ? `${rest}\n` : ''}`
}
