import { expect } from 'vitest'
import { type Connection, postgresOperator } from '../../src/stores/postgres/index.js'
import type { StoreHarness } from '../../src/testing/index.js'
import { aClaim, aFinish, anAnswer, assertSameAnswer, leaseMs, take } from '../../src/testing/store-cases/store-case.js'

interface OperatorCasesOptions<Tx> {
  test: (name: string, run: () => Promise<void>) => unknown
  setup: () => Promise<StoreHarness<Tx>>
  connection: Connection<Tx>
}

const day = 86_400_000
const turnMs = 600_000

/** What the contract of a store leaves out: pages of background work over several moments, and what operators see and do. */
export function exerciseOperator<Tx>({ test, setup, connection }: OperatorCasesOptions<Tx>): void {
  test('the sweeper finds every abandoned key, page by page', async () => {
    const { store, advance } = await setup()
    const upkeep = store.upkeep as NonNullable<typeof store.upkeep>
    await connection.query(`update oncekey.upkeep set frontier = 'epoch', holder = null, held_until = '-infinity'`, [])
    const tenants: string[] = []
    for (let count = 0; count < 5; count += 1) {
      const claim = aClaim()
      tenants.push(claim.tenant)
      await take(store, claim)
      await advance(60_000)
    }
    await advance(leaseMs)
    const holder = crypto.randomUUID()
    const swept: string[] = []
    let after: string | undefined
    for (let pages = 0; pages < 10; pages += 1) {
      const page = await upkeep.keysSweep({ holder, turnMs, limit: 2, after })
      expect(page.turn).toBe(true)
      if (!page.turn) return
      swept.push(...page.swept.map(({ tenant }) => tenant))
      if (page.lookedUpTo === null) break
      after = page.lookedUpTo
    }
    expect(swept.sort()).toEqual(tenants.sort())
    // The frontier is not past keys that are abandoned later.
    const late = aClaim({ leaseMs: 60_000 })
    await take(store, late)
    await advance(60_001)
    const next = await upkeep.keysSweep({ holder, turnMs, limit: 100 })
    expect(next.turn && next.swept.map(({ tenant }) => tenant)).toEqual([late.tenant])
  })

  test('a relay that goes on where it looked up to misses no job', async () => {
    const { store, advance } = await setup()
    const [steps, outbox] = [store.steps, store.outbox]
    if (!steps || !outbox) throw new Error('no outbox')
    const taken: string[] = []
    let [from, group]: (string | null)[] = [null, null]
    for (let round = 0; round < 4; round += 1) {
      const claim = aClaim()
      const { lease } = await take(store, claim)
      const jobs = [undefined, `g${round}`].map((name) => ({
        id: crypto.randomUUID(),
        name: 'mail',
        payload: `${round}`,
        ...(name === undefined ? {} : { group: name }),
      }))
      await steps.stepAdvance({ lease, from: null, to: 'staged', steps: [], jobs })
      for (let looks = 0; looks < 2; looks += 1) {
        const found = await outbox.jobsTake({
          token: crypto.randomUUID(),
          leaseMs,
          limit: 3,
          names: null,
          heldByDead: false,
          from: from ?? undefined,
          group: group ?? undefined,
        } as never)
        ;[from, group] = [found.lookedUpTo, found.nextGroup]
        taken.push(...found.jobs.map(({ payload }) => payload as string))
      }
      await advance(2_000)
    }
    expect(taken.sort()).toEqual(['0', '0', '1', '1', '2', '2', '3', '3'])
  })

  test('dead letters are listed page by page, and one is retried as it was seen', async () => {
    const { store } = await setup()
    const outbox = store.outbox as NonNullable<typeof store.outbox>
    const operator = postgresOperator(connection)
    await connection.query(
      `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, dead_at)
       select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', clock_timestamp(),
         clock_timestamp() + number * interval '7 microseconds'
       from generate_series(1, 25) as number`,
      [],
    )
    const listed: string[] = []
    for (let after: Parameters<typeof outbox.jobsDead>[0]['after']; listed.length < 30; ) {
      const page = await outbox.jobsDead({ limit: 2, after })
      listed.push(...page.map(({ id }) => id))
      if (page.length < 2) break
      after = page.at(-1)
    }
    expect([listed.length, new Set(listed).size]).toEqual([25, 25])
    const { jobs } = await operator.jobsList({ state: 'dead', limit: 100 })
    expect(await operator.jobsResolve(jobs, { as: 'retry', note: 'mended' })).toBe(25)
  })

  test('a key that an operator lets wait again waits for its whole retention, to the minute', async () => {
    const { store } = await setup()
    const operator = postgresOperator(connection)
    // Of two of these one ends at the other side of a change of the clocks, whatever the date is.
    for (const days of [120, 240]) {
      const claim = aClaim({ retention: { ms: days * day, from: 'creation', floorMs: 0 } })
      const { lease } = await take(store, claim)
      await store.keyPark({ lease, answer: anAnswer, reason: 'look at it' })
      const [seen] = await operator.keysList({ tenant: claim.tenant, limit: 1 })
      if (!seen) throw new Error('no key')
      expect(await operator.keyRetry(seen, { note: 'again' })).toBe(true)
      const record = await store.keyRead(claim)
      expect(Math.abs((record?.expiresAt ?? 0) - (record?.createdAt ?? 0) - days * day)).toBeLessThan(60_000)
    }
  })

  test('keys that waited past their retention end, and what is stored of them is kept as long again, to the minute', async () => {
    const { store, advance } = await setup()
    for (const days of [120, 240]) {
      const claim = aClaim({ retention: { ms: days * day, from: 'creation', floorMs: 0 } })
      const { lease } = await take(store, claim)
      await store.keyRelease({ lease, reason: 'later' })
      await advance(days * day + 1_000)
      const before = Date.now()
      await store.upkeep?.keysTimeOut({ limit: 100 })
      const record = await store.keyRead(claim)
      expect(record?.state).toBe('parked')
      expect(Math.abs((record?.expiresAt ?? 0) - before - days * day)).toBeLessThan(60_000)
    }
  })

  test('the story of a key has its times, its steps and its answer', async () => {
    const { store } = await setup()
    const operator = postgresOperator(connection)
    const claim = aClaim({ request: new Uint8Array([0, 92, 255]) })
    const began = Date.now()
    const { lease } = await take(store, claim)
    const step = { name: 'charged', position: 0, kind: 'phase' as const, result: '{"id":"ch_1"}' }
    await store.steps?.stepAdvance({
      lease,
      from: null,
      to: 'charged',
      steps: [step],
      jobs: [{ id: crypto.randomUUID(), name: 'mail', payload: '1' }],
    })
    await store.keyFinish(aFinish({ kind: 'execute', lease } as never))
    const [seen] = await operator.keysList({ tenant: claim.tenant, limit: 10 })
    const story = seen && (await operator.keyStory(seen))
    expect(story?.requestBytes).toBe(3)
    assertSameAnswer(story?.answer, anAnswer)
    const times = [story?.now, story?.key.createdAt, story?.steps[0]?.at, story?.jobs[0]?.at]
    for (const time of times) expect(Math.abs((time ?? 0) - began)).toBeLessThan(60_000)
    expect(story?.steps).toMatchObject([{ name: 'charged', result: '{"id":"ch_1"}' }])
    const streamed: number[] = []
    for await (const { createdAt } of operator.keysStream({ tenant: claim.tenant })) streamed.push(createdAt)
    expect(streamed).toEqual([seen?.createdAt])
    expect((await operator.keysCount()).states).toMatchObject({ complete: 1 })
  })
}
