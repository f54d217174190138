// A heap that is much smaller than what is compared: whoever kept it would be killed, however fast the machine is.
import { spawn } from 'node:child_process'
import { createWriteStream, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()
const long = process.env.ONCEKEY_LONG === '1'
const rows = long ? 1_000_000 : 60_000
const timeout = 1_800_000
const folder = mkdtempSync(join(tmpdir(), 'oncekey-any-size-'))
afterAll(() => rm(folder, { recursive: true }))

/** One row in a thousand is not as it should be. */
function countsOf(all: number) {
  const count = (remainder: number) => Math.ceil((all - remainder) / 3_000)
  const [onlyLocal, onlyForeign, differs] = [count(0), count(1_000), count(2_000)]
  const equal = all - onlyLocal - onlyForeign - differs
  return { equal, differs, onlyLocal, onlyForeign, unsettled: 0, local: all - onlyForeign, foreign: all - onlyLocal, complete: true }
}

async function ended(heapMegabytes: number, words: readonly string[]): Promise<{ out: string; exitCode: number | null }> {
  const child = spawn(process.execPath, [`--max-old-space-size=${heapMegabytes}`, ...words], {
    env: { ...process.env, DATABASE_URL: database.url },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
  })
  const exitCode = await new Promise<number | null>((resolve) => child.on('close', resolve))
  return { out, exitCode }
}

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url))

test(`compares ${rows.toLocaleString('en')} items with as many, exactly, with a heap of 24 MB`, { timeout }, async () => {
  const { out, exitCode } = await ended(24, [here('./big-streams.mjs'), String(rows)])
  expect(exitCode).toBe(0)
  const { found, summary, used } = JSON.parse(out)
  const counts = countsOf(rows)
  expect(summary).toEqual(counts)
  expect(found).toEqual({ 'only-local': counts.onlyLocal, 'only-foreign': counts.onlyForeign, differs: counts.differs })
  report('streams', used)
})

/** Fewer than above, but long ones: reading is what takes time. */
const lines = long ? rows : 4_000
const note = 'x'.repeat(long ? 100 : 9_000)

/** Sorted by their bytes, or the newest first, as a provider has them. */
async function file(name: 'local' | 'foreign', order: 'sorted' | 'newest'): Promise<string> {
  const ids = Array.from({ length: lines }, (_, id) => id).filter((id) => id % 3_000 !== (name === 'local' ? 1_000 : 0))
  const texts = ids.map((id) => ({ id: `order-${id}`, amount: name === 'local' && id % 3_000 === 2_000 ? -1 : id }))
  if (order === 'newest') texts.reverse()
  else texts.sort((one, other) => (one.id < other.id ? -1 : 1))
  const path = join(folder, `${name}-${order}`)
  function* written() {
    for (const text of texts) yield `${JSON.stringify({ ...text, note })}\n`
  }
  await pipeline(written, createWriteStream(path))
  return path
}

test('so does the command line, with a heap of 32 MB', { timeout }, async () => {
  const [local, foreign] = [await file('local', 'sorted'), await file('foreign', 'sorted')]
  await database.pool.query(`create table orders as
    select 'order-' || id as id, case when id % 3000 = 2000 then -1 else id end as amount, '${note}' as note
    from generate_series(0, ${lines - 1}) as id where id % 3000 <> 1000`)
  await reconciled(32, 'two files', '--local', local, '--foreign', foreign)
  await reconciled(32, 'a query and a file', '--sql', 'select * from orders', '--foreign', foreign)
  if (!long) return
  const unsorted = [await file('local', 'newest'), await file('foreign', 'newest')] as const
  await reconciled(96, 'two files that it sorts', '--local', unsorted[0], '--foreign', unsorted[1], '--sort')
})

async function reconciled(heapMegabytes: number, what: string, ...words: string[]): Promise<void> {
  const program = [here('./with-peak.mjs'), 'reconcile', '--compare', 'amount', '--json']
  const { out, exitCode } = await ended(heapMegabytes, [...program, ...words])
  const [document = '', used = ''] = out.split('\n\n')
  expect([exitCode, JSON.parse(document).summary]).toEqual([6, countsOf(lines)])
  report(what, used.trim())
}

function report(what: string, numbers: string): void {
  if (long) process.stdout.write(`${what}, ${rows.toLocaleString('en')} × ${rows.toLocaleString('en')}: ${numbers}\n`)
}
