// Reconciles two long streams with the package as it is built, in a process whose heap the test has limited.
import process from 'node:process'
import { reconcile } from '../../dist/reconcile/index.js'

const [rows] = process.argv.slice(2).map(Number)

/** One row in a thousand is not as it should be. Each is large enough that keeping them would be noticed. */
async function* side(name) {
  for (let id = 0; id < rows; id += 1) {
    if (id % 3000 === (name === 'local' ? 1000 : 0)) continue
    yield {
      id: `order-${String(id).padStart(9, '0')}`,
      amount: name === 'local' && id % 3000 === 2000 ? 0 : id,
      more: new Array(100).fill(id),
    }
  }
}

const found = { 'only-local': 0, 'only-foreign': 0, differs: 0 }
const run = reconcile({
  local: side('local'),
  foreign: side('foreign'),
  key: (item) => item.id,
  compare: { amount: (ours, theirs) => ours.amount === theirs.amount },
  signal: new AbortController().signal,
})
for await (const { kind } of run) found[kind] += 1
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage()
const used = `${Math.round((userCPUTime + systemCPUTime) / 1e6)} s of the processor, ${Math.round(maxRSS / 1024)} MB at the most`
process.stdout.write(JSON.stringify({ found, summary: run.summary, used }))
