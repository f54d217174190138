import { mkdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { dirname } from 'node:path'
import type pg from 'pg'
import { backendCpuReader } from './backend-cpu.js'
import { besideEmptyTwin, type TwinResult } from './beside-empty-twin.js'
import { type Options, readOptions, usage } from './options.js'
import { sectionTable, twinTable } from './report.js'
import type { Bench } from './round.js'
import { sessionSettings, startServer } from './server.js'
import { type Section, sideBySide } from './side-by-side.js'

const batchedLanes = 4
const single = { lanes: 16, batch: 1 }

const options = readOptions(process.argv.slice(2))
if (options) await main(options)
else console.log(usage)

async function main(options: Options) {
  const begin = performance.now()
  const loadBefore = loadavg()[0] as number
  const server = await startServer({ small: options.quick })
  const lanes: pg.Client[] = []
  for (let lane = 0; lane < Math.max(batchedLanes, single.lanes); lane++) lanes.push(await server.connect())
  const bench = {
    admin: server.admin,
    lanes,
    seconds: options.seconds,
    bodyBytes: options.bodyBytes,
    backendCpuMs: await backendCpuReader(lanes, server.ours),
  }

  const setting = {
    date: new Date().toISOString(),
    node: process.version,
    server: server.settings,
    session: { ...sessionSettings, autovacuum_enabled: 'off (per table)' },
    rounds: options.rounds,
    secondsPerRound: options.seconds,
    bodyBytes: options.bodyBytes,
    loadAverageBefore: Number(loadBefore.toFixed(2)),
  }
  console.log(`## Layout of the keys table\n\n\`\`\`json\n${JSON.stringify(setting, null, 2)}\n\`\`\`\n`)
  console.log('Median (lowest–highest) of the rounds. One unit: claim a new key, finish it with its answer.\n')

  const sections: Section[] = []
  const twins: { rows: number; results: TwinResult[] }[] = []
  for (const rows of options.rows) {
    if (rows >= options.aloneFrom) twins.push({ rows, results: await measureTwins(bench, options, rows) })
    else sections.push(await measureSection(bench, options, rows))
  }
  if (options.single) sections.push(await measureSingle(bench, options))

  await server.stop()
  if (!options.output) return
  mkdirSync(dirname(options.output), { recursive: true })
  writeFileSync(options.output, `${JSON.stringify({ ...setting, sections, twins }, null, 2)}\n`)
  console.error(`Wrote ${options.output} after ${((performance.now() - begin) / 60_000).toFixed(1)} minutes`)
}

async function measureSection(bench: Bench, { layouts, rounds, batch }: Options, rows: number) {
  const section = await sideBySide(bench, layouts, { rows, rounds, concurrency: { lanes: batchedLanes, batch } })
  console.log(sectionTable(section))
  return section
}

async function measureTwins(bench: Bench, { contenders, rounds, batch }: Options, rows: number) {
  const results: TwinResult[] = []
  for (const layout of contenders) {
    results.push(await besideEmptyTwin(bench, layout, { rows, rounds, concurrency: { lanes: batchedLanes, batch } }))
    // The table so far, in case that the next ten million rows never end.
    console.error(twinTable(rows, results))
  }
  console.log(twinTable(rows, results))
  return results
}

/** One statement per request through 16 connections: how much of the difference is left without batches. */
async function measureSingle(bench: Bench, { contenders, rounds }: Options) {
  const section = await sideBySide(bench, contenders, { rows: 0, rounds, concurrency: single })
  console.log(sectionTable(section))
  return section
}
