import type { TwinResult } from './beside-empty-twin.js'
import type { Section } from './side-by-side.js'
import type { Spread, Summary } from './summary.js'

const times = ({ median, min, max }: Spread) => `**${median.toFixed(2)}** (${min.toFixed(2)}–${max.toFixed(2)})`
const rate = ({ median, min, max }: Spread) => `${Math.round(median)} (${Math.round(min)}–${Math.round(max)})`
const micros = (value: Spread | null) => (value ? `${value.median.toFixed(1)} (${value.min.toFixed(1)}–${value.max.toFixed(1)})` : '–')
const percent = (value: number | null) => (value === null ? '–' : `${value.toFixed(1)} %`)
const pair = (heap: number, index: number) => `${Math.round(heap)} / ${Math.round(index)}`
const whole = ({ wholeTable }: Summary) => (wholeTable ? pair(wholeTable.heapBytesPerKey, wholeTable.indexBytesPerKey) : '–')

function table(head: string[], rows: string[][]) {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

const costHead = ['server CPU, µs', 'HOT', 'heap / index bytes per new key', 'of the whole table', 'WAL bytes', 'full-page images']
const costs = (summary: Summary) => [
  micros(summary.backendCpuPerKey),
  percent(summary.hotPercent),
  pair(summary.heapBytesPerKey, summary.indexBytesPerKey),
  whole(summary),
  String(Math.round(summary.walBytesPerKey)),
  summary.fullPageImagesPerKey.toFixed(3),
]

export function sectionTable({ title, concurrency, summaries }: Section) {
  const head = ['layout', 'throughput ratio', 'claim + finish per second', ...costHead]
  const rows = summaries.map((summary) => [summary.layout, times(summary.ratio), rate(summary.perSecond), ...costs(summary)])
  return `### ${title}; ${concurrency.lanes} statements of ${concurrency.batch} outstanding\n\n${table(head, rows)}\n`
}

export function twinTable(rows: number, results: readonly TwinResult[]) {
  const head = ['layout', 'time, full / empty', 'right after a checkpoint', 'per second, full', 'empty', ...costHead]
  const lines = results.map(({ timeRatio, timeRatioAfterCheckpoint, afterCheckpoint, full, empty }) => [
    full.layout,
    times(timeRatio),
    `${timeRatioAfterCheckpoint.toFixed(2)} (${(afterCheckpoint.fullPageImages / afterCheckpoint.keys).toFixed(2)} images)`,
    rate(full.perSecond),
    rate(empty.perSecond),
    ...costs(full),
  ])
  return `### ${rows} rows, each layout beside its own empty twin\n\n${table(head, lines)}\n`
}
