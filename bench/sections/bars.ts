import type { Bar } from '../harness/bars.js'
import type { Group, Sample } from '../harness/contender.js'
import { ratio } from '../harness/report.js'
import { spread } from '../layout/summary.js'
import { adapterBars, loneBars, peerBars, requestBars } from './bars-http.js'
import { type Fingerprints, ofJson } from './fingerprint.js'
import { type Growing, growthNames } from './growth.js'
import { type Kept, peerNames } from './peers.js'
import { pgbenchNames } from './pgbench.js'
import { storeNames } from './store.js'
import { growthTitle, storeTitle, twoStepTitle } from './titles.js'
import { twoStepNames } from './two-step.js'

/** A request that is alone is promised to be within 5 % of the path without batches. */
const tolerance = 0.05

/** What was promised, beside what this run measured. */
export function barsOf(groups: readonly Group[], growing: Growing | undefined, fingerprints: Fingerprints | undefined): Bar[] {
  const bars: Bar[] = []
  const within = (title: string, one: string, other: string, name?: keyof Sample) =>
    ratio(
      groups.find((group) => group.title === title),
      one,
      other,
      name,
    )
  const store = (level: number, other: string, least: number) =>
    bars.push({ what: `oncekey / ${other}, ${level} outstanding`, least, measured: within(storeTitle(level), storeNames.batched, other) })

  store(64, pgbenchNames.prepared, 4)
  store(64, storeNames.unbatched, 6)
  // The same behind a pooler that keeps no prepared statements.
  const unprepared = (other: string, least: number) => {
    const what = `${storeNames.unprepared} / ${other}, 64 outstanding`
    bars.push({ what, least, measured: within(storeTitle(64), storeNames.unprepared, other) })
  }
  unprepared(pgbenchNames.unprepared, 4)
  unprepared(storeNames.unbatchedUnprepared, 6)
  store(1, storeNames.unbatched, 1 - tolerance)
  for (const { outstanding } of groups.filter(({ title, outstanding }) => title === storeTitle(outstanding))) {
    for (const [name, words] of [
      ['p50Ms', 'p50'],
      ['p99Ms', 'p99'],
    ] as const) {
      const measured = within(storeTitle(outstanding), storeNames.batched, storeNames.unbatched, name)
      const most = outstanding === 1 ? 1 + tolerance : 1
      bars.push({ what: `${words}: oncekey / ${storeNames.unbatched}, ${outstanding} outstanding`, most, measured })
    }
  }
  const libraries = (level: number, kept: Kept, least: number) => {
    for (const nameOf of [peerNames.nodeIdempotency, peerNames.powertools]) store(level, nameOf(kept), least)
  }
  libraries(64, 'in memory', 0.75)
  libraries(256, 'in memory', 1.3)
  libraries(1_024, 'in memory', 1.3)
  for (const level of [64, 256, 1_024]) libraries(level, 'AOF always', 1.2)
  store(256, pgbenchNames.batched, 0.55)

  const { oncekey, dbos } = twoStepNames
  bars.push(
    { what: `two steps: ${oncekey} / ${dbos}, 64 outstanding`, least: 4, measured: within(twoStepTitle(64), oncekey, dbos) },
    { what: `two steps, p50: ${oncekey} / ${dbos}, one at a time`, most: 0.25, measured: within(twoStepTitle(1), oncekey, dbos, 'p50Ms') },
  )

  bars.push(...requestBars(groups), ...peerBars(groups), ...adapterBars(groups), ...loneBars(groups))
  bars.push({
    what: `fresh table that grows to ${(growing?.rows ?? 1_000_000).toLocaleString('en')} keys: rate of its slowest tenth / of its second`,
    // "Keeps its rate": a little less is noise, and a plan that has gone stale makes it a hundredth.
    least: 0.8,
    measured: growing ? spread([growing.rates.min]) : null,
  })
  for (const [size, most] of [
    [1_000, 12],
    [10_000, 100],
  ] as const) {
    const measured = fingerprints?.['application/json']?.[size]
    const plain = fingerprints?.[ofJson]?.[size]
    const what = `fingerprint of ${size.toLocaleString('en')} bytes of JSON`
    bars.push(
      { what: `${what}, CPU µs`, most, measured: measured ?? null },
      {
        what: `${what} / JSON.parse and JSON.stringify of it`,
        most: 1,
        measured: measured && plain ? spread([measured.median / plain.median]) : null,
      },
    )
  }
  const { empty, full } = growthNames
  bars.push({ what: 'time, 10 M stored keys / none', most: 1.2, measured: within(growthTitle(10_000_000), empty, full) })
  return bars
}
