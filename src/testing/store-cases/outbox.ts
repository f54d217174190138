import assert from 'node:assert/strict'
import type { JobRecord, JobSettlement, JobsTake, OutboxStore, StepStore, TakenJob } from '../../core/store.js'
import type { StoreHarness } from '../exercise-store.js'
import { aClaim, leaseMs, type StoreCase, second, take as takeKey } from './store-case.js'

/** What the cases need: each has its own job names. */
interface Bench {
  readonly outbox: OutboxStore
  readonly tenant: string
  /** `bytes`: minimum size of the payload. */
  stage(...jobs: (Pick<JobRecord, 'group' | 'delayMs'> & { readonly n: number; readonly bytes?: number })[]): Promise<void>
  take(changes?: Partial<JobsTake>): Promise<{ readonly token: string; readonly jobs: readonly TakenJob[]; readonly numbers: number[] }>
  advance(ms: number): Promise<void> | void
}

/** Skipped for stores that cannot stage jobs. */
function outboxCase<Tx>(name: string, run: (bench: Bench) => Promise<void>): StoreCase<Tx> {
  return {
    name,
    async run(harness) {
      const { outbox, steps } = harness.store
      if (!outbox || !steps) return assert.equal(outbox, undefined)
      await run(benchOf(harness, steps, outbox))
    },
  }
}

function benchOf<Tx>({ store, advance }: StoreHarness<Tx>, steps: StepStore<Tx>, outbox: OutboxStore): Bench {
  const { tenant } = aClaim()
  return {
    outbox,
    tenant,
    async stage(...jobs) {
      const { lease } = await takeKey(store, aClaim({ tenant, key: crypto.randomUUID() }))
      const records = jobs.map(({ n, bytes = 0, ...options }) => {
        return { id: crypto.randomUUID(), name: tenant, payload: String(n).padEnd(bytes), ...options }
      })
      assert.equal(await steps.stepAdvance({ lease, from: null, to: 'staged', steps: [], jobs: records }), 'done')
    },
    async take(changes = {}) {
      const token = crypto.randomUUID()
      const { jobs } = await outbox.jobsTake({ token, leaseMs, limit: 100, names: [tenant], heldByDead: true, ...changes })
      return { token, jobs, numbers: jobs.map(({ payload }) => Number(payload)).sort((one, other) => one - other) }
    },
    advance,
  }
}

const settled = (
  { token, jobs }: { readonly token: string; readonly jobs: readonly TakenJob[] },
  as: { as: 'delivered' } | { as: 'release' } | { as: 'retry'; dueInMs: number; error: string } | { as: 'dead'; error: string },
): { readonly jobs: readonly JobSettlement[] } => ({ jobs: jobs.map(({ tenant, id }) => ({ tenant, id, token, ...as })) })

// biome-ignore lint/suspicious/noExplicitAny: the cases work with any transaction type.
export const outboxCases: StoreCase<any>[] = [
  outboxCase(
    'gives a job to one of two that take at once, and to nobody else until the lease is over',
    async ({ stage, take, advance }) => {
      await stage({ n: 1 }, { n: 2 }, { n: 3, group: 'g' })
      const both = await Promise.all([take(), take()])
      // A job that one call skipped because the other had locked and released it is left for the next call.
      const next = await take()
      assert.deepEqual([...both, next].flatMap(({ numbers }) => numbers).sort(), [1, 2, 3])
      assert.deepEqual((await take()).numbers, [])
      await advance(leaseMs + second)
      const again = await take()
      assert.deepEqual(again.numbers, [1, 2, 3])
      assert.deepEqual(
        again.jobs.map(({ attempt }) => attempt),
        [2, 2, 2],
      )
    },
  ),

  outboxCase('lets nobody settle what another one holds, and forgets what is delivered', async ({ outbox, stage, take, advance }) => {
    await stage({ n: 1 })
    const zombie = await take()
    await advance(leaseMs + second)
    const holder = await take()
    for (const as of [
      { as: 'delivered' },
      { as: 'release' },
      { as: 'retry', dueInMs: 0, error: 'e' },
      { as: 'dead', error: 'e' },
    ] as const) {
      assert.deepEqual(await outbox.jobsSettle(settled(zombie, as)), ['lost'])
    }
    assert.deepEqual((await take()).numbers, [])
    assert.deepEqual(await outbox.jobsSettle(settled(holder, { as: 'delivered' })), ['done'])
    assert.deepEqual(await outbox.jobsSettle(settled(holder, { as: 'delivered' })), ['lost'])
    await advance(2 * leaseMs)
    assert.deepEqual((await take()).numbers, [])
  }),

  outboxCase('lets a holder settle that is late but was not replaced', async ({ outbox, stage, take, advance }) => {
    await stage({ n: 1 })
    const holder = await take()
    await advance(leaseMs + second)
    assert.deepEqual(await outbox.jobsSettle(settled(holder, { as: 'delivered' })), ['done'])
    assert.deepEqual((await take()).numbers, [])
  }),

  outboxCase('gives of each group its oldest job, and no other while that one is held, waits or is dead', async (bench) => {
    const { outbox, stage, take, advance } = bench
    await stage({ n: 1, group: 'a' }, { n: 2, group: 'a' }, { n: 3, group: 'b' })
    await stage({ n: 4, group: 'a' }, { n: 5, group: 'b' })
    const heads = await take()
    assert.deepEqual(heads.numbers, [1, 3])
    assert.deepEqual((await take()).numbers, [])
    const first = { ...heads, jobs: heads.jobs.filter(({ group }) => group === 'a') }
    const other = { ...heads, jobs: heads.jobs.filter(({ group }) => group === 'b') }
    await outbox.jobsSettle({
      jobs: [...settled(first, { as: 'retry', dueInMs: 60 * second, error: 'later' }).jobs, ...settled(other, { as: 'delivered' }).jobs],
    })
    const next = await take()
    assert.deepEqual(next.numbers, [5])
    await advance(61 * second)
    const retried = await take()
    assert.deepEqual(retried.numbers, [1])
    await outbox.jobsSettle(settled(retried, { as: 'dead', error: 'never' }))
    assert.deepEqual((await take()).numbers, [])
    assert.deepEqual((await take({ heldByDead: false })).numbers, [2])
  }),

  outboxCase(
    'gives nothing of a group while a job of it is held, though an older one is back',
    async ({ outbox, stage, take, advance }) => {
      const goOn = { heldByDead: false }
      await stage({ n: 1, group: 'a' }, { n: 2, group: 'a' }, { n: 3, group: 'a' })
      const first = await take(goOn)
      await outbox.jobsSettle(settled(first, { as: 'dead', error: 'refused' }))
      const next = await take(goOn)
      assert.deepEqual(next.numbers, [2])
      assert.equal(await outbox.jobsResolve({ jobs: first.jobs, as: 'retry' }), 1)
      assert.deepEqual((await take(goOn)).numbers, [])
      // Its holder may be gone: an expired lease does not count.
      await advance(leaseMs + second)
      const back = await take(goOn)
      assert.deepEqual(back.numbers, [1])
      await outbox.jobsSettle(settled(back, { as: 'delivered' }))
      assert.deepEqual((await take(goOn)).numbers, [2])
    },
  ),

  outboxCase('gives nothing before it is due, and gives back what was not tried as it was', async ({ outbox, stage, take, advance }) => {
    await stage({ n: 1, delayMs: 60 * second }, { n: 2 })
    const early = await take()
    assert.deepEqual(early.numbers, [2])
    await outbox.jobsSettle(settled(early, { as: 'release' }))
    assert.deepEqual(
      (await take()).jobs.map(({ attempt }) => attempt),
      [1],
    )
    await advance(61 * second)
    assert.deepEqual((await take()).numbers, [1])
  }),

  outboxCase('lets payloads come along while they are small, and reads the others for who holds the job', async (bench) => {
    const { outbox, tenant, stage, take, advance } = bench
    await stage({ n: 1, bytes: 40_000 }, { n: 2, bytes: 200_000 }, { n: 3 }, { n: 4, bytes: 40_000 })
    const taken = await take()
    const along = taken.jobs.filter(({ payload }) => payload !== null)
    assert.equal(along.length, 2)
    for (const { payload, payloadBytes } of taken.jobs) assert.ok(payloadBytes >= (payload?.length ?? 40_000))
    const wanted = taken.jobs.filter(({ payload }) => payload === null).map(({ id }) => ({ tenant, id, token: taken.token }))
    const read = await outbox.jobsRead({ jobs: wanted })
    const numbers = [...along, ...read].map((found) => Number(found?.payload))
    assert.deepEqual(numbers.sort(), [1, 2, 3, 4])
    await advance(leaseMs + second)
    await take()
    assert.deepEqual(await outbox.jobsRead({ jobs: wanted }), [null, null])
  }),

  outboxCase('lists what was given up, and lets a person retry or discard it', async ({ outbox, tenant, stage, take }) => {
    await stage({ n: 1 }, { n: 2 })
    const taken = await take()
    await outbox.jobsSettle(settled(taken, { as: 'dead', error: 'refused' }))
    const all = await outbox.jobsDead({ limit: 1_000 })
    const ours = all.filter((job) => job.tenant === tenant)
    assert.deepEqual(
      ours.map(({ attempts, error }) => [attempts, error]),
      [
        [1, 'refused'],
        [1, 'refused'],
      ],
    )
    const [one, other] = ours as [(typeof ours)[0], (typeof ours)[0]]
    assert.equal(await outbox.jobsResolve({ jobs: [one], as: 'retry' }), 1)
    assert.equal(await outbox.jobsResolve({ jobs: [one, other], as: 'discard' }), 1)
    const again = await take()
    assert.deepEqual(
      again.jobs.map(({ id, attempt }) => [id, attempt]),
      [[one.id, 1]],
    )
    await outbox.jobsSettle(settled(again, { as: 'delivered' }))
  }),
]
