// The relay beside two job queues on Postgres, on one server with fsync on: how fast a full table is delivered, and how soon a job starts.
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { type Bar, barsTable, verdictOn } from '../harness/bars.js'
import { groupTable, ratio } from '../harness/report.js'
import { interleave } from '../harness/rounds.js'
import { startServer } from '../harness/server.js'
import { graphileWorkerOutbox } from './graphile-worker.js'
import { oncekeyOutbox } from './oncekey.js'
import { pgBossOutbox } from './pg-boss.js'
import { drains, startsEach } from './turns.js'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    jobs: { type: 'string' },
    output: { type: 'string' },
  },
})
const { quick } = values
const rounds = Number(values.rounds ?? (quick ? 1 : 5))
const jobs = Number(values.jobs ?? (quick ? 300 : 10_000))
const latencies = quick ? 5 : 50

const server = await startServer({ small: quick })
const ours = oncekeyOutbox(server)
const elsewhere = oncekeyOutbox(server, { elsewhere: true })
const others = [await graphileWorkerOutbox(server), await pgBossOutbox(server)]
const match = { outstanding: 1, seconds: 0, rounds, prepare: () => server.reset(), reference: ours.name }

const throughput = await interleave({
  ...match,
  title: `${jobs} jobs, from the start of the workers until the last is settled`,
  contenders: [ours, ...others].map((outbox) => drains(outbox, jobs, server.cpu)),
})
const latency = await interleave({
  ...match,
  title: 'one job on idle workers, from its acknowledged commit until its handler begins',
  contenders: [ours, elsewhere, ...others].map((outbox) => startsEach(outbox, latencies, server.cpu)),
})
for (const outbox of [ours, elsewhere, ...others]) await outbox.close()
await server.stop()

const bars: Bar[] = others.flatMap(({ name }) => [
  { what: `jobs a second: oncekey / ${name}`, least: 1, measured: ratio(throughput, ours.name, name) },
  { what: `p50 until the handler begins: oncekey / ${name}`, most: 1, measured: ratio(latency, ours.name, name, 'p50Ms') },
])
console.log([groupTable(throughput), groupTable(latency), barsTable(bars)].join('\n'))
if (!quick) {
  const output = values.output ?? 'bench/results/outbox.json'
  mkdirSync('bench/results', { recursive: true })
  const machine = { cpus: cpus().length, model: cpus()[0]?.model, load: loadavg() }
  const met = bars.map((bar) => ({ ...bar, verdict: verdictOn(bar) }))
  const result = { date: new Date().toISOString(), node: process.version, machine, server: server.settings, throughput, latency, bars: met }
  writeFileSync(output, `${JSON.stringify(result, null, 2)}\n`)
  console.error(`Wrote ${output}`)
}
// A queue may keep a timer or a connection.
process.exit(0)
