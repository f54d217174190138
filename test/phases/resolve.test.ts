import { expect, test } from 'vitest'
import { bodyOf, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

/** A key that is parked over a call nobody knows the outcome of. */
async function parked() {
  const bundle = await setup(database, { audit: true })
  let made = 0
  const operation = bundle.once.operation('charges', {}, async (run) => {
    const charge = await run.call(
      'charge',
      () => {
        made += 1
        if (made === 1) throw new Error('reset')
        return { id: 'ch_again' }
      },
      { whenUnknown: 'park' },
    )
    return reply(201, charge)
  })
  const ref = { tenant: bundle.tenant, scope: 'charges', key: 'k' }
  const attempt = () => operation.run({ tenant: bundle.tenant, key: 'k', input: null })
  expect((await attempt()).kind).toBe('parked')
  return { ...bundle, ref, attempt, made: () => made }
}

test('goes on with the result when a person says that the call happened', async () => {
  const { once, ref, attempt, made } = await parked()
  await once.resolve(ref, { as: 'happened', result: { id: 'ch_1' }, by: 'alice' })
  const outcome = await attempt()
  expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual({ id: 'ch_1' })
  expect(made()).toBe(1)
})

test('makes the call when a person says that it did not happen', async () => {
  const { once, ref, attempt, made } = await parked()
  await once.resolve(ref, { as: 'did-not-happen', by: 'alice' })
  const outcome = await attempt()
  expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual({ id: 'ch_again' })
  expect(made()).toBe(2)
})

test('answers every retry with what a person stored as the failure', async () => {
  const { once, ref, attempt } = await parked()
  await once.resolve(ref, { as: 'failed', reply: reply(502, { error: 'refunded by hand' }), by: 'alice' })
  for (const _ of [1, 2]) expect(await attempt()).toMatchObject({ kind: 'replayed', state: 'failed', answer: { status: 502 } })
})

test('lets one of ten people decide, whatever they say', async () => {
  for (const word of [{ as: 'failed', reply: reply(500) }, { as: 'did-not-happen' }] as const) {
    const { once, ref } = await parked()
    const results = await Promise.allSettled(
      Array.from({ length: 10 }, (_, index) => once.resolve(ref, { ...word, by: `person ${index}` })),
    )
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect((await once.history(ref)).filter(({ what }) => what === 'resolved')).toHaveLength(1)
  }
})

test('lets one of two people decide', async () => {
  const { once, newOnce, ref } = await parked()
  const words = [once.resolve(ref, { as: 'happened', result: 1 }), newOnce().resolve(ref, { as: 'did-not-happen' })]
  const results = await Promise.allSettled(words)
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
  const refused = results.find((result) => result.status === 'rejected')
  expect(refused?.reason).toMatchObject({ code: 'resolve_conflict', status: 409 })
})

test('refuses to resolve what is not parked, and "happened" where no call is in question', async () => {
  const { once, tenant } = await setup(database)
  const done = once.operation('done', {}, () => reply(200))
  await done.run({ tenant, key: 'k', input: null })
  await expect(once.resolve({ tenant, scope: 'done', key: 'k' }, { as: 'did-not-happen' })).rejects.toMatchObject({
    code: 'resolve_conflict',
  })
  await expect(once.resolve({ tenant, scope: 'done', key: 'x' }, { as: 'did-not-happen' })).rejects.toMatchObject({
    code: 'resolve_conflict',
  })
  const renamed = once.operation('renamed', {}, async (run) => {
    await run.phase(`attempt ${run.attempt}`, () => 1)
    throw new Error('half-way')
  })
  await expect(renamed.run({ tenant, key: 'k', input: null })).rejects.toThrow('half-way')
  expect((await renamed.run({ tenant, key: 'k', input: null })).kind).toBe('parked')
  await expect(once.resolve({ tenant, scope: 'renamed', key: 'k' }, { as: 'happened' })).rejects.toMatchObject({ code: 'resolve_conflict' })
  await once.resolve({ tenant, scope: 'renamed', key: 'k' }, { as: 'failed', reply: reply(500) })
})

test('tells the whole story of a key', async () => {
  const { once, ref, attempt } = await parked()
  await once.resolve(ref, { as: 'happened', result: { id: 'ch_1' }, by: 'alice' })
  await attempt()
  const story = (await once.history(ref)).map(({ what, fence, detail }) => `${fence} ${what}: ${detail}`)
  expect(story).toEqual([
    '1 claimed: null',
    '1 advanced: charge?',
    "1 parked: the call 'charge' failed with an unknown outcome (reset)",
    '2 resolved: resolved as happened by alice',
    '3 taken-over: resolved as happened by alice',
    '3 complete: null',
  ])
})

test('notes resolutions even where no trail is kept, and nothing else', async () => {
  const { once, tenant } = await setup(database)
  const operation = once.operation('untraced', {}, async (run) => {
    await run.call('c', () => Promise.reject(new Error('reset')), { whenUnknown: 'park' })
    return reply(200)
  })
  await operation.run({ tenant, key: 'k', input: null })
  const ref = { tenant, scope: 'untraced', key: 'k' }
  expect(await once.history(ref)).toEqual([])
  await once.resolve(ref, { as: 'failed', reply: reply(500), by: 'bob' })
  expect(await once.history(ref)).toMatchObject([{ what: 'resolved', detail: 'resolved as failed by bob' }])
})
