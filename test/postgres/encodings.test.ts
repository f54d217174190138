import { describe, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresOperator, postgresStore } from '../../src/stores/postgres/index.js'
import { exerciseStore } from '../../src/testing/index.js'
import { aClaim, aFinish, assertReplays, take } from '../../src/testing/store-cases/store-case.js'
import { useEncoding } from '../support/postgres/encoding.js'
import { emptyHarness } from '../support/postgres/harness.js'

/** Characters that neither Latin-1 nor Cyrillic has. */
const foreign = '日本 € 🐶'

describe.each(['LATIN1', 'WIN1251', 'SQL_ASCII'])('in a database with %s', (encoding) => {
  const pool = useEncoding(encoding)
  const isAnyText = encoding === 'SQL_ASCII'

  // Two of the cases have names in which there are other characters than these.
  const some = (name: string, run: () => Promise<void>) => {
    if (isAnyText || !/to the letter|well-formed Unicode/.test(name)) test(name, run)
  }
  if (encoding !== 'WIN1251') exerciseStore({ test: some, setup: () => emptyHarness(fromPg(pool)) })

  test('results, jobs, headers and bodies have any characters', async () => {
    const store = postgresStore(fromPg(pool))
    const once = createOnce({ store })
    const operation = once.operation('orders.create', {}, async (run) => {
      const text = await run.phase('named', () => ({ text: foreign }))
      return run.finish(async (tx) => {
        await run.stage(tx, 'mail', { text: foreign })
        return reply(201, text, { 'x-note': 'é' })
      })
    })
    const request = { tenant: crypto.randomUUID(), key: 'k', input: { text: foreign } }
    const first = await operation.run(request)
    const second = await operation.run(request)
    expect([first.kind, second.kind]).toEqual(['executed', 'replayed'])
    if (second.kind !== 'replayed') return
    expect(second.answer.headers).toContainEqual(['x-note', 'é'])
    expect(new TextDecoder().decode(second.answer.body)).toBe(JSON.stringify({ text: foreign }))
    const { jobs } = await store.outbox.jobsTake({
      token: crypto.randomUUID(),
      leaseMs: 60_000,
      limit: 9,
      names: null,
      heldByDead: false,
    } as never)
    expect(jobs.filter(({ tenant }) => tenant === request.tenant).map(({ payload }) => JSON.parse(payload as string))).toEqual([
      { text: foreign },
    ])
  })

  test.each(['rerun', 'store', 'park'] as const)('a key is settled as %s, whatever the error says', async (afterFailure) => {
    const once = createOnce({ store: postgresStore(fromPg(pool)) })
    const tenant = crypto.randomUUID()
    const run = once.execute({ tenant, scope: 's', key: 'k', fingerprint: false, afterFailure }, () => {
      throw new Error(`no ${foreign}`)
    })
    await expect(run).rejects.toThrow(foreign)
    const [key] = await postgresOperator(fromPg(pool)).keysList({ tenant, limit: 1 })
    expect(key?.state).toBe({ rerun: 'pending', store: 'failed', park: 'parked' }[afterFailure])
    expect(key?.reason).toBe(isAnyText ? `Error: no ${foreign}` : 'Error: no \\u65e5\\u672c \\u20ac \\ud83d\\udc36')
  })

  test.each(['resend', 'park'] as const)('what the other side refuses with is recorded, whatever it says: %s', async (whenUnknown) => {
    const once = createOnce({ store: postgresStore(fromPg(pool)) })
    let calls = 0
    const operation = once.operation(`refused.${whenUnknown}`, {}, async (run) => {
      const charge = () => {
        calls += 1
        throw new Error(foreign)
      }
      return run.call('charge', charge, { whenUnknown, classify: () => 'refused' }).then(
        () => reply(201),
        (error: Error) => reply(402, { says: error.message }),
      )
    })
    const request = { tenant: crypto.randomUUID(), key: 'k', input: {} }
    expect(await operation.run(request)).toMatchObject({ kind: 'executed', stored: true })
    expect(await operation.run(request)).toMatchObject({ kind: 'replayed', answer: { status: 402 } })
    expect(calls).toBe(1)
  })

  test('a key that the database cannot hold is refused alone', async () => {
    const store = postgresStore(fromPg(pool))
    await store.keyClaim(aClaim())
    const [bad, ...good] = [aClaim({ key: foreign }), ...Array.from({ length: 20 }, () => aClaim())]
    const refused = store.keyClaim(bad as never).then(
      () => null,
      ({ code }) => code,
    )
    const claimed = await Promise.all(good.map((claim) => take(store, claim)))
    expect(await refused).toBe(isAnyText ? null : 'text_unsupported')
    const finished = await Promise.all(claimed.map((one) => store.keyFinish(aFinish(one))))
    expect(new Set(finished)).toEqual(new Set(['done']))
    await assertReplays(store, good[0] as never)
  })
})
