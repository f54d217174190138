// The store, the frameworks and what else there is, side by side on one Postgres with fsync on. `--help` lists the options.
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname } from 'node:path'
import type { Contender, Group } from './harness/contender.js'
import { type Options, readOptions, usage } from './harness/options.js'
import { groupTable } from './harness/report.js'
import { interleave } from './harness/rounds.js'
import { type BenchServer, startServer } from './harness/server.js'
import { pgbenchContenders, pgbenchNames } from './sections/pgbench.js'
import { storeContenders, storeNames } from './sections/store.js'

const options = readOptions(process.argv.slice(2))
if (options) await main(options)
else console.log(usage)

async function main(options: Options) {
  const begin = performance.now()
  const loadBefore = loadavg()[0] as number
  const server = await startServer({ small: options.quick })
  const setting = {
    date: new Date().toISOString(),
    node: process.version,
    processor: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
    server: server.settings,
    rounds: options.rounds,
    secondsPerTurn: options.seconds,
    loadAverageBefore: Number(loadBefore.toFixed(2)),
  }
  const notes: string[] = []
  const groups: Group[] = []
  groups.push(...(await measureStore(server, options, notes)))
  await server.stop()

  console.log(`## oncekey bench\n\nMedian (lowest–highest) of ${options.rounds} rounds; ratios are of turns of the same round.\n`)
  for (const group of groups) console.log(groupTable(group))
  for (const note of notes) console.log(`- ${note}`)
  console.log(`\n\`\`\`json\n${JSON.stringify(setting, null, 2)}\n\`\`\``)
  if (options.output) {
    mkdirSync(dirname(options.output), { recursive: true })
    writeFileSync(options.output, `${JSON.stringify({ ...setting, notes, groups }, null, 2)}\n`)
    console.error(`Wrote ${options.output}`)
  }
  console.error(`${((performance.now() - begin) / 60_000).toFixed(1)} minutes`)
}

/** Claim and finish of a new key, by everything that can do it, at each number of outstanding requests. */
async function measureStore(server: BenchServer, { only, outstanding, rounds, seconds }: Options, notes: string[]): Promise<Group[]> {
  if (!only.has('store') && !only.has('pgbench')) return []
  const contenders = storeContenders(server)
  const pgbench = only.has('pgbench') ? await pgbenchContenders(server, { seconds }) : []
  if (typeof pgbench === 'string') notes.push(pgbench)
  else contenders.push(...pgbench)
  const groups: Group[] = []
  for (const level of outstanding) {
    groups.push(
      await interleave({
        title: `Claim and finish, ${level} outstanding`,
        contenders: contenders.filter(({ name }) => canRun(name, level)),
        reference: storeNames.unbatched,
        ...{ outstanding: level, rounds, seconds, prepare: server.reset },
      }),
    )
  }
  return groups
}

/** One client alone, or less than one batch, says nothing about the others. */
function canRun(name: Contender['name'], outstanding: number): boolean {
  if (name === pgbenchNames.batched) return outstanding >= 64
  return outstanding >= 16 || (name !== pgbenchNames.prepared && name !== pgbenchNames.unprepared)
}
