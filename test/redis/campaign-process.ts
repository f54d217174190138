// A process that answers requests, three in ten of them retries, and reports what came of each.
import { Redis } from 'ioredis'
import pg from 'pg'
import { bodyOf, createOnce, type Reply, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { fromIoredis, redisFilter, redisStore } from '../../src/stores/redis/index.js'
import { seededRandom } from '../phases/seeded-random.js'
import { childSettings, tellParent } from '../support/in-child.js'

export interface CampaignSettings {
  readonly subject: 'filter' | 'redis'
  readonly databaseUrl: string
  readonly redisPort: number
  readonly secret: string
  /** 0 or 1: each process makes keys of its own, and repeats those of both. */
  readonly seat: number
  readonly requests: number
  readonly outstanding: number
  readonly seed: number
}

/** Which key, what was asked with it, and the mark that the run left in its answer. */
export interface Seen {
  readonly key: string
  readonly asked: string
  readonly mark: string
}

export interface CampaignReport {
  readonly executed: readonly Seen[]
  readonly replayed: readonly Seen[]
  readonly mismatched: readonly Omit<Seen, 'mark'>[]
  readonly counts: Readonly<Record<string, number>>
  readonly slowestMs: number
}

const { subject, databaseUrl, redisPort, secret, seat, requests, outstanding, seed } = childSettings<CampaignSettings>()
const random = seededRandom(seed)
const counts: Record<string, number> = {}
const count = (what: string) => {
  counts[what] = (counts[what] ?? 0) + 1
}

const redis = new Redis({ port: redisPort, retryStrategy: () => 20, maxRetriesPerRequest: 1 })
redis.on('error', () => {})
const pool = new pg.Pool({ connectionString: databaseUrl, max: 8 })
const connection = fromIoredis(redis)
const store =
  subject === 'redis'
    ? redisStore(connection)
    : redisFilter(postgresStore(fromPg(pool)), connection, {
        secrets: [{ id: 's', key: secret }],
        // Enough for a busy machine to have its answers, most of the time.
        timeout: '100ms',
        onEvent: ({ type }) => count(`filter: ${type}`),
      })
const once = createOnce({ store, lease: '60s', storeTimeout: '30s' })

const executed: Seen[] = []
const replayed: Seen[] = []
const mismatched: Omit<Seen, 'mark'>[] = []
let slowestMs = 0
let made = 0
let sent = 0

/** Mostly a key of its own that is new; else one of the last of either process, finished, under way or about to be. */
function nextKey(): string {
  if (random() >= 0.3) {
    made += 1
    return `${seat}-${made}`
  }
  return `${random() < 0.5 ? 0 : 1}-${Math.max(1, made - Math.floor(random() * 200))}`
}

async function request(): Promise<void> {
  const key = nextKey()
  const asked = random() < 0.01 ? 'something else' : 'the usual'
  const startedAt = performance.now()
  const mark = crypto.randomUUID()
  try {
    const outcome = await once.execute(
      { tenant: 'campaign', scope: 'orders', key, fingerprint: { value: asked }, afterFailure: 'rerun' },
      async () => {
        // Something takes time, so that retries find it under way.
        await new Promise((resolve) => setTimeout(resolve, random() * 5))
        executed.push({ key, asked, mark })
        return reply(201, { mark })
      },
    )
    count(outcome.kind)
    if (outcome.kind === 'replayed') replayed.push({ key, asked, mark: bodyOf(outcome.answer as Reply<{ mark: string }>).mark })
    if (outcome.kind === 'mismatch') mismatched.push({ key, asked })
  } catch (error) {
    count(`error: ${(error as { code?: string }).code ?? String(error)}`)
  }
  slowestMs = Math.max(slowestMs, performance.now() - startedAt)
}

async function line(): Promise<void> {
  while (sent < requests) {
    sent += 1
    if (sent % 100 === 0) tellParent('on its way')
    await request()
  }
}

await Promise.all(Array.from({ length: outstanding }, line))
tellParent({ executed, replayed, mismatched, counts, slowestMs } satisfies CampaignReport)
redis.disconnect()
await pool.end()
