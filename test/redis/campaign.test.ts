import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { seededRandom } from '../phases/seeded-random.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { startRedis } from '../support/redis.js'
import { type ReplyFault, startRedisProxy } from '../support/redis-proxy.js'
import type { CampaignReport, CampaignSettings, Seen } from './campaign-process.js'

const database = useDatabase()
const seed = Number(process.env.ONCEKEY_SEED ?? Math.floor(Math.random() * 2 ** 32))
const long = process.env.ONCEKEY_LONG === '1'

/** Of each of the two processes. */
const requests = long ? 50_000 : 500
/** So many requests of both come between two blows to Redis. */
const between = long ? 2_000 : 300

interface Campaign {
  readonly subject: CampaignSettings['subject']
  readonly faults: readonly ReplyFault[]
  /** Whether Redis is flushed, killed and cut off in turn meanwhile. */
  readonly isStruck: boolean
}

async function campaign({ subject, faults, isStruck }: Campaign) {
  const random = seededRandom(seed)
  const server = await startRedis('none')
  const pick = () => (random() < 0.005 ? (faults[Math.floor(random() * faults.length)] as ReplyFault) : 'none')
  const proxy = await startRedisProxy(server.port, pick)
  const shared = { subject, databaseUrl: database.url, redisPort: proxy.port, secret: randomBytes(32).toString('hex') }
  const children = [0, 1].map((seat) =>
    startChild('redis/campaign-process.ts', { ...shared, seat, requests, outstanding: 32, seed: seed + seat } satisfies CampaignSettings),
  )
  const blows = { flush: 0, kill: 0, cut: 0 }
  let onTheirWay = 0
  let blow = Promise.resolve()

  async function strike(): Promise<void> {
    const kind = (['flush', 'kill', 'cut'] as const)[(blows.flush + blows.kill + blows.cut) % 3] as keyof typeof blows
    blows[kind] += 1
    if (kind === 'flush') await server.reset()
    if (kind === 'cut') proxy.cut()
    if (kind === 'kill') {
      await server.kill()
      await server.start()
    }
  }

  const reports = await Promise.all(
    children.map(async (child) => {
      for (;;) {
        const message = await child.message<CampaignReport | string>()
        if (typeof message !== 'string') return message
        onTheirWay += 100
        if (isStruck && onTheirWay % between === 0) blow = blow.then(strike)
      }
    }),
  )
  await blow
  await proxy.stop()
  await server.stop()
  return { ...judged(reports), blows, faults: proxy.done }
}

function judged(reports: readonly CampaignReport[]) {
  const counts: Record<string, number> = {}
  for (const report of reports) {
    for (const [what, times] of Object.entries(report.counts)) counts[what] = (counts[what] ?? 0) + times
  }
  const runs = reports.flatMap(({ executed }) => executed)
  const runOf = new Map(runs.map((run) => [run.mark, run]))
  const asked = new Set(runs.map((run) => `${run.key} ${run.asked}`))
  const isWrong = ({ key, asked, mark }: Seen) => runOf.get(mark)?.key !== key || runOf.get(mark)?.asked !== asked
  return {
    counts,
    ranAgain: runs.length - new Set(runs.map(({ key }) => key)).size,
    wrongAnswers: reports.flatMap(({ replayed }) => replayed).filter(isWrong).length,
    wrongMismatches: reports.flatMap(({ mismatched }) => mismatched).filter((each) => asked.has(`${each.key} ${each.asked}`)).length,
    errors: Object.fromEntries(Object.entries(counts).filter(([what]) => what.startsWith('error'))),
    slowestMs: Math.round(Math.max(...reports.map(({ slowestMs }) => slowestMs))),
  }
}

const every: readonly ReplyFault[] = ['delay', 'drop', 'duplicate', 'truncate', 'reorder', 'damage']

test(`behind the filter nothing runs twice and no answer is wrong, whatever becomes of Redis (ONCEKEY_SEED=${seed})`, {
  timeout: 1_800_000,
}, async () => {
  const outcome = await campaign({ subject: 'filter', faults: every, isStruck: true })
  process.stdout.write(`${JSON.stringify(outcome)}\n`)
  const { counts, ranAgain, wrongAnswers, wrongMismatches, errors } = outcome
  expect({ ranAgain, wrongAnswers, wrongMismatches, errors }).toEqual({ ranAgain: 0, wrongAnswers: 0, wrongMismatches: 0, errors: {} })
  // Otherwise nothing was tried.
  expect(counts['filter: served']).toBeGreaterThan(0)
  if (!long) return
  expect(counts['filter: unanswered']).toBeGreaterThan(0)
  expect(counts['filter: refused']).toBeGreaterThan(0)
})

/** Faults that clients notice: they ask again, and the store recognises them. */
const noticed: readonly ReplyFault[] = ['truncate', 'delay']

test(`the best-effort store runs nothing twice while Redis remembers, whatever becomes of its replies (ONCEKEY_SEED=${seed})`, {
  timeout: 1_800_000,
}, async () => {
  const outcome = await campaign({ subject: 'redis', faults: noticed, isStruck: false })
  process.stdout.write(`${JSON.stringify(outcome)}\n`)
  const { ranAgain, wrongAnswers, wrongMismatches } = outcome
  expect({ ranAgain, wrongAnswers, wrongMismatches }).toEqual({ ranAgain: 0, wrongAnswers: 0, wrongMismatches: 0 })
  if (long) expect(outcome.faults.truncate).toBeGreaterThan(0)
})

test(`the best-effort store runs again what Redis forgot (ONCEKEY_SEED=${seed})`, { timeout: 1_800_000 }, async () => {
  const outcome = await campaign({ subject: 'redis', faults: noticed, isStruck: true })
  process.stdout.write(`${JSON.stringify(outcome)}\n`)
  // This is what best effort means; docs/guide/redis.md has the numbers.
  expect(outcome.ranAgain).toBeGreaterThan(0)
  expect(outcome.wrongAnswers).toBe(0)
})
