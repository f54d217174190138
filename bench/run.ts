// The store, the frameworks and what else there is, side by side on one Postgres with fsync on. `--help` lists the options.
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { dirname } from 'node:path'
import { barsTable, verdictOn } from './harness/bars.js'
import type { Contender, Group } from './harness/contender.js'
import { stolenShare } from './harness/cpu.js'
import { type Options, readOptions, usage } from './harness/options.js'
import { type Redis, startRedis } from './harness/redis.js'
import { groupTable, shown } from './harness/report.js'
import { interleave, mostFirst } from './harness/rounds.js'
import { type BenchServer, startServer } from './harness/server.js'
import type { Spread } from './layout/summary.js'
import { adapterTables } from './sections/adapter-table.js'
import { barsOf } from './sections/bars.js'
import { engineLine, measureEngine } from './sections/engine.js'
import { type Fingerprints, fingerprintTable, measureFingerprints } from './sections/fingerprint.js'
import { type Growing, measureGrowth } from './sections/growth.js'
import { measureHttp } from './sections/http.js'
import { type Memory, measureMemory, memoryTable } from './sections/memory.js'
import { measureOneAtATime } from './sections/one-at-a-time.js'
import { redisContenders } from './sections/peers.js'
import { pgbenchContenders, pgbenchNames } from './sections/pgbench.js'
import { measureRedis } from './sections/redis.js'
import { storeContenders, storeNames } from './sections/store.js'
import { storeTitle } from './sections/titles.js'
import { measureTwoSteps } from './sections/two-step.js'

interface Servers {
  readonly postgres: BenchServer
  /** Only for what needs it. */
  readonly redis: { readonly inMemory: Redis; readonly always: Redis } | undefined
}

const options = readOptions(process.argv.slice(2))
if (options) await main(options)
else console.log(usage)
// Services of a section that failed are still running, and end with this process.
process.exit()

async function main(options: Options) {
  const begin = performance.now()
  const loadAverageBefore = Number((loadavg()[0] as number).toFixed(2))
  const stolen = stolenShare()
  const { only, rounds, seconds, rows, quick } = options
  const notes: string[] = []
  const groups: Group[] = []
  let growing: Growing | undefined
  let memory: Memory | undefined
  let fingerprints: Fingerprints | undefined
  let engine: Spread | undefined
  const postgres = await startServer({ small: quick })
  const servers: Servers = { postgres, redis: only.has('peers') || only.has('redis') ? await startRedisServers(notes) : undefined }

  await section('claim and finish', only.has('store') || only.has('pgbench') || only.has('peers'), () =>
    measureStore(servers, options, notes),
  )
  await section('two steps', only.has('peers'), () => measureTwoSteps(postgres, { rounds, seconds, notes }))
  await section('HTTP', only.has('http'), () => measureHttp(postgres, { ...options, redis: servers.redis, notes }))
  await section('one at a time', only.has('one-at-a-time'), () =>
    measureOneAtATime(postgres, { rounds, seconds, adapters: options.oneAtATime, notes }),
  )
  await section('Redis', only.has('redis') && servers.redis !== undefined, () =>
    measureRedis(postgres, (servers.redis as NonNullable<Servers['redis']>).inMemory, { rounds, seconds, notes }),
  )
  await section('growth', only.has('growth'), async () => {
    const growth = await measureGrowth(postgres, { rounds, seconds, rows, small: quick })
    growing = growth.growing
    return growth.groups
  })
  await section('memory', only.has('memory'), async () => {
    memory = await measureMemory(postgres, { rounds })
    return []
  })
  await section('fingerprint', only.has('fingerprint'), async () => {
    fingerprints = measureFingerprints({ rounds, seconds })
    return []
  })
  await section('engine', only.has('engine'), async () => {
    engine = await measureEngine({ rounds, seconds })
    return []
  })
  await servers.redis?.inMemory.stop()
  await servers.redis?.always.stop()
  await postgres.stop()

  const { bars, ...setting } = result()
  console.log(`## oncekey bench

Median (lowest–highest) of ${rounds} rounds; ratios are of turns of the same round. CPU is per request: own, of the Node process or of pgbench;
server, of all processes of the Postgres or Redis behind it.
`)
  console.log(barsTable(bars))
  console.log(adapterTables(groups))
  for (const group of groups) console.log(groupTable(group))
  if (growing)
    console.log(
      `A fresh table that grows in one run, beside one that stays small: its rate in each later tenth, the second being 1: ${shown(growing.rates)}\n`,
    )
  if (memory) console.log(memoryTable(memory))
  if (fingerprints) console.log(fingerprintTable(fingerprints))
  if (engine) console.log(engineLine(engine))
  for (const note of notes) console.log(`- ${note}`)
  console.log(`\n\`\`\`json\n${JSON.stringify({ ...setting, notes: undefined, groups: undefined }, null, 2)}\n\`\`\``)
  if (options.output) console.error(`Wrote ${options.output} after ${setting.minutes} minutes`)

  /** One that fails says so, and does not take along what the others have measured. */
  async function section(name: string, wanted: boolean, measure: () => Promise<readonly Group[]>): Promise<void> {
    if (!wanted) return
    try {
      groups.push(...(await measure()))
    } catch (error) {
      console.error(error)
      notes.push(`**The section "${name}" failed:** ${(error as Error).message}`)
      process.exitCode = 1
    }
    if (!options.output) return
    mkdirSync(dirname(options.output), { recursive: true })
    writeFileSync(options.output, `${JSON.stringify(result(), null, 2)}\n`)
  }

  function result() {
    return {
      date: new Date().toISOString(),
      node: process.version,
      processor: `${cpus().length} × ${cpus()[0]?.model.trim()}`,
      postgres: postgres.settings,
      ...{ rounds, secondsPerTurn: seconds, loadAverageBefore, stolenShare: stolen() },
      minutes: Number(((performance.now() - begin) / 60_000).toFixed(1)),
      bars: barsOf(groups, growing, fingerprints).map((bar) => ({ ...bar, verdict: verdictOn(bar) })),
      ...{ notes, growing, memory, fingerprints, engine, groups },
    }
  }
}

/** Claim and finish of a new key, by everything that can do it, at each number of outstanding requests. */
async function measureStore({ postgres, redis }: Servers, options: Options, notes: string[]): Promise<Group[]> {
  const { only, rounds, seconds } = options
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
  for (const outstanding of mostFirst(options.outstanding)) {
    groups.unshift(
      await interleave({
        ...{ title: storeTitle(outstanding), outstanding, rounds, prepare },
        // One at a time they are few: the slowest hundredth of them should be more than two or three.
        seconds: outstanding === 1 ? 3 * seconds : seconds,
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
