import type { Group, Sample } from '../harness/contender.js'
import { added, column, ratio, shown, table } from '../harness/report.js'
import { adapterWays, type Framework, frameworks, type HttpMode, httpModes, httpTitle, serviceName } from './titles.js'

/** All frameworks in one table for each kind of request: what Node and the server spend on one. */
export function adapterTables(groups: readonly Group[]): string {
  const tables = (Object.keys(httpModes) as HttpMode[]).flatMap((mode) =>
    [...new Set(groups.map(({ outstanding }) => outstanding))].map((connections) => adapterTable(groups, mode, connections)),
  )
  return tables.join('')
}

function adapterTable(groups: readonly Group[], mode: HttpMode, connections: number): string {
  const rows = (Object.keys(frameworks) as Framework[]).flatMap((framework) => {
    const group = groups.find(({ title }) => title === httpTitle(framework, mode, connections))
    return group ? [rowOf(framework, group)] : []
  })
  if (rows.length === 0) return ''
  const head = [
    '',
    ...adapterWays,
    'added to bare',
    'above the floor',
    'server, floor',
    'server, oncekey',
    'requests a second / bare',
    '/ floor',
  ]
  return `### CPU µs per request: ${httpModes[mode]}, ${connections} connections\n\n${table(head, rows)}\n\n`
}

function rowOf(framework: Framework, group: Group): string[] {
  const [bare, floor, oncekey] = adapterWays.map((way) => serviceName(framework, way)) as [string, string, string]
  const median = (name: string, of: keyof Sample) => column(group.samples[name], of)?.median.toFixed(0) ?? '–'
  return [
    frameworks[framework],
    ...[bare, floor, oncekey].map((name) => median(name, 'clientCpuMicros')),
    shown(added(group, oncekey, bare, 'clientCpuMicros'), 0),
    shown(added(group, oncekey, floor, 'clientCpuMicros'), 0),
    ...[floor, oncekey].map((name) => median(name, 'serverCpuMicros')),
    ...[bare, floor].map((name) => shown(ratio(group, oncekey, name))),
  ]
}
