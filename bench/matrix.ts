// `npm run bench` on each release line of Node, one after the other, and its tables beside each other. Options are those of the bench.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nodeOf } from '../test/support/npm-program.js'
import type { Group, Sample } from './harness/contender.js'
import { column, table } from './harness/report.js'
import { adapterWays, type Framework, frameworks, type HttpMode, httpModes, httpTitle, serviceName } from './sections/titles.js'

const majors = ['20', '24', '26']

/** Fewer and shorter turns than a whole run: there are three of them. */
const usual = ['--only', 'http', '--adapters', Object.keys(frameworks).join(',')]

interface Run {
  readonly node: string
  readonly processor: string
  readonly rounds: number
  readonly groups: readonly Group[]
}

const folder = mkdtempSync(join(tmpdir(), 'oncekey-bench-'))
try {
  const runs: Run[] = []
  for (const major of majors) runs.push(await benchOn(major, process.argv.slice(2)))
  console.log(`## oncekey bench by Node\n\n${runs[0]?.processor}; medians of ${runs[0]?.rounds} rounds.\n`)
  console.log(matrix(runs))
} finally {
  rmSync(folder, { recursive: true })
}

async function benchOn(major: string, options: readonly string[]): Promise<Run> {
  const output = join(folder, `${major}.json`)
  const program = await nodeOf(major)
  console.error(`Node ${major}: ${program}`)
  const bench = ['--import', 'tsx', fileURLToPath(new URL('run.ts', import.meta.url)), ...usual, ...options, '--output', output]
  // Its own report goes to standard error: standard output is for the table of all.
  const [code] = await once(spawn(program, bench, { stdio: ['ignore', 2, 2] }), 'exit')
  // What it measured counts, as in the bench itself: what is missing is a dash in the table.
  if (code !== 0) {
    console.error(`The bench failed on Node ${major}: see above`)
    process.exitCode = 1
  }
  return JSON.parse(readFileSync(output, 'utf8'))
}

/** A table for each kind of request: what a framework takes of Node for one, and how many it answers. */
function matrix(runs: readonly Run[]): string {
  const connections = [...new Set(runs.flatMap(({ groups }) => groups.map(({ outstanding }) => outstanding)))]
  const head = ['', ...runs.flatMap(({ node }) => [`Node ${node}: CPU µs, ${adapterWays.join(' / ')}`, 'requests a second'])]
  const tables = (Object.keys(httpModes) as HttpMode[]).flatMap((mode) =>
    connections.flatMap((count) => {
      const rows = (Object.keys(frameworks) as Framework[]).flatMap((framework) => rowOf(runs, framework, mode, count))
      return rows.length === 0 ? [] : [`### ${httpModes[mode]}, ${count} connections\n\n${table(head, rows)}\n`]
    }),
  )
  return tables.join('\n')
}

function rowOf(runs: readonly Run[], framework: Framework, mode: HttpMode, connections: number): string[][] {
  const title = httpTitle(framework, mode, connections)
  const groups = runs.map((run) => run.groups.find((group) => group.title === title))
  if (groups.every((group) => group === undefined)) return []
  const cells = groups.flatMap((group) => [medians(group, framework, 'clientCpuMicros'), medians(group, framework, 'perSecond')])
  return [[frameworks[framework], ...cells]]
}

/** Bare, floor, oncekey. */
function medians(group: Group | undefined, framework: Framework, of: keyof Sample): string {
  return adapterWays.map((way) => column(group?.samples[serviceName(framework, way)], of)?.median.toFixed(0) ?? '–').join(' / ')
}
