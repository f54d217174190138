// How much requests feel of the reaper, and whether the table levels off. Uses the server in DATABASE_URL, or starts one with fsync on.
import { mkdirSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { fromPg, migrate } from '../../src/stores/postgres/index.js'
import { startPostgres } from '../../test/support/postgres/server.js'
import { measureBloat, mebibytes } from './bloat.js'
import { measureReaping } from './reaping.js'

const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, keys: { type: 'string' }, output: { type: 'string' } },
})
const { quick } = values
const keys = Number(values.keys ?? (quick ? 2_000 : 1_000_000))
const given = process.env.DATABASE_URL
const flags = { shared_buffers: quick ? '128MB' : '2GB', max_wal_size: '20GB', min_wal_size: '2GB', autovacuum_naptime: '1s' }
const own = given ? undefined : await startPostgres({ flags })
const pool = new pg.Pool({ connectionString: given ?? own?.url, max: 16 })
// Its server may be gone before its last connection is.
pool.on('error', () => {})
await migrate(fromPg(pool))

const paced = await measureReaping(pool, { keys, rounds: quick ? 1 : 5, seconds: quick ? 0.5 : 20 })
const bloat = await measureBloat(pool, { rounds: quick ? 3 : 12, keys: quick ? 2_000 : 100_000, liveSeconds: quick ? 1 : 20 })
const { rows } = await pool.query(
  `select current_setting('fsync') as fsync, current_setting('synchronous_commit') as synchronous_commit, current_setting('server_version') as version`,
)
await pool.end()
await own?.stop()

const result = { date: new Date().toISOString(), node: process.version, server: rows[0], load: loadavg()[0], paced, bloat }
const { p99Ratio, p50Ratio, reapedPerSecond, claimsPerSecond } = paced
const shown = ({ median, min, max }: { median: number; min: number; max: number }, digits = 2) =>
  `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`
console.log(`reaping ${keys} expired keys, at the pace that is the default, beside claims

| | |
|---|---|
| claim + finish p99, while reaping / alone | ${shown(p99Ratio)} |
| claim + finish p50, while reaping / alone | ${shown(p50Ratio)} |
| claim + finish a second, alone | ${shown(claimsPerSecond.alone, 0)} |
| claim + finish a second, while reaping | ${shown(claimsPerSecond.whileReaping, 0)} |
| reaped a second | ${shown(reapedPerSecond, 0)} |

filled and reaped, ${bloat.length} rounds

| round | live keys | heap | indexes |
|---|---|---|---|
${bloat.map(({ round, live, heapBytes, indexBytes }) => `| ${round} | ${live} | ${mebibytes(heapBytes)} | ${mebibytes(indexBytes)} |`).join('\n')}
`)
if (bloat.every(({ reaped }) => reaped === 0)) throw new Error('nothing was reaped')
if (!quick) {
  const output = values.output ?? 'bench/results/upkeep.json'
  mkdirSync('bench/results', { recursive: true })
  writeFileSync(output, `${JSON.stringify(result, null, 2)}\n`)
  console.error(`Wrote ${output}`)
}
