// The store, the frameworks and what else there is, side by side on one Postgres with fsync on. `--help` lists the options.
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname } from 'node:path'
import { barsTable, verdictOn } from './harness/bars.js'
import type { Contender, Group } from './harness/contender.js'
import { type Options, readOptions, usage } from './harness/options.js'
import { type Redis, startRedis } from './harness/redis.js'
import { groupTable, shown } from './harness/report.js'
import { interleave } from './harness/rounds.js'
import { type BenchServer, startServer } from './harness/server.js'
import { barsOf } from './sections/bars.js'
import { measureGrowth } from './sections/growth.js'
import { measureHttp } from './sections/http.js'
import { measureMemory, memoryTable } from './sections/memory.js'
import { redisContenders } from './sections/peers.js'
import { pgbenchContenders, pgbenchNames } from './sections/pgbench.js'
import { storeContenders, storeNames } from './sections/store.js'
import { storeTitle } from './sections/titles.js'
import { measureTwoSteps } from './sections/two-step.js'

interface Servers {
  readonly postgres: BenchServer
  /** Only for the peers that need it. */
  readonly redis: { readonly inMemory: Redis; readonly always: Redis } | undefined
}

const options = readOptions(process.argv.slice(2))
if (options) await main(options)
else console.log(usage)

async function main(options: Options) {
  const begin = performance.now()
  const loadBefore = loadavg()[0] as number
  const { only, rounds, seconds, rows, quick } = options
  const notes: string[] = []
  const postgres = await startServer({ small: quick })
  const servers: Servers = { postgres, redis: only.has('peers') ? await startRedisServers(notes) : undefined }

  const groups = await measureStore(servers, options, notes)
  if (only.has('peers')) groups.push(...(await measureTwoSteps(postgres, { rounds, seconds, notes })))
  if (only.has('http')) groups.push(...(await measureHttp(postgres, { rounds, seconds, redis: servers.redis?.inMemory, notes })))
  const growth = only.has('growth') ? await measureGrowth(postgres, { rounds, seconds, rows, small: quick }) : undefined
  groups.push(...(growth?.groups ?? []))
  const memory = only.has('memory') ? await measureMemory(postgres, { rounds }) : undefined
  await servers.redis?.inMemory.stop()
  await servers.redis?.always.stop()
  await postgres.stop()

  const bars = barsOf(groups, growth?.growing)
  const setting = {
    date: new Date().toISOString(),
    node: process.version,
    processor: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
    postgres: postgres.settings,
    ...{ rounds, secondsPerTurn: seconds },
    loadAverageBefore: Number(loadBefore.toFixed(2)),
    minutes: Number(((performance.now() - begin) / 60_000).toFixed(1)),
  }
  console.log(`## oncekey bench\n\nMedian (lowest–highest) of ${rounds} rounds; ratios are of turns of the same round.\n`)
  console.log(barsTable(bars))
  for (const group of groups) console.log(groupTable(group))
  if (growth)
    console.log(`A fresh table that grows in one run, rate of each later tenth over that of the second: ${shown(growth.growing.rates)}\n`)
  if (memory) console.log(memoryTable(memory))
  for (const note of notes) console.log(`- ${note}`)
  console.log(`\n\`\`\`json\n${JSON.stringify(setting, null, 2)}\n\`\`\``)
  if (!options.output) return
  mkdirSync(dirname(options.output), { recursive: true })
  const judged = bars.map((bar) => ({ ...bar, verdict: verdictOn(bar) }))
  const result = { ...setting, bars: judged, notes, groups, growing: growth?.growing, memory }
  writeFileSync(options.output, `${JSON.stringify(result, null, 2)}\n`)
  console.error(`Wrote ${options.output} after ${setting.minutes} minutes`)
}

/** Claim and finish of a new key, by everything that can do it, at each number of outstanding requests. */
async function measureStore({ postgres, redis }: Servers, options: Options, notes: string[]): Promise<Group[]> {
  const { only, rounds, seconds } = options
  if (!only.has('store') && !only.has('pgbench') && !only.has('peers')) return []
  const contenders = storeContenders(postgres)
  const pgbench = only.has('pgbench') ? await pgbenchContenders(postgres, { seconds }) : []
  if (typeof pgbench === 'string') notes.push(pgbench)
  else contenders.push(...pgbench)
  const inMemory = redis && (await redisContenders(redis.inMemory, 'in memory'))
  const always = redis && (await redisContenders(redis.always, 'AOF always'))
  contenders.push(...(inMemory?.contenders ?? []), ...(always?.contenders ?? []))
  const prepare = async () => {
    await Promise.all([postgres.reset(), redis?.inMemory.reset(), redis?.always.reset()])
  }
  const groups: Group[] = []
  for (const outstanding of options.outstanding) {
    groups.push(
      await interleave({
        ...{ title: storeTitle(outstanding), outstanding, rounds, seconds, prepare },
        contenders: contenders.filter(({ name }) => canRun(name, outstanding)),
        reference: storeNames.unbatched,
      }),
    )
  }
  await inMemory?.stop()
  await always?.stop()
  return groups
}

/** One client alone, or less than one batch, says nothing about the others. */
function canRun(name: Contender['name'], outstanding: number): boolean {
  if (name === pgbenchNames.batched) return outstanding >= 64
  return outstanding >= 16 || (name !== pgbenchNames.prepared && name !== pgbenchNames.unprepared)
}

async function startRedisServers(notes: string[]): Promise<Servers['redis']> {
  const inMemory = await startRedis('none')
  const always = await startRedis('always')
  if (inMemory && always) return { inMemory, always }
  notes.push('redis-server is not on the PATH (on Debian: apt-get install redis-server): the libraries that need it are left out.')
  return undefined
}
