import { type } from 'arktype'
import * as v from 'valibot'
import { expect, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { bodyOf, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

const zodOrder = z.object({
  amount: z.number().int().positive(),
  currency: z.string().default('eur'),
  on: z.string().transform((text) => new Date(text)),
})

test('infers input, results and reply from a zod schema, end to end', async () => {
  const { once, tenant } = await setup(database)
  const operation = once.operation('typed', { input: zodOrder }, async (run, input) => {
    expectTypeOf(input).toEqualTypeOf<{ amount: number; currency: string; on: Date }>()
    const order = await run.phase('ordered', async (tx) => {
      expectTypeOf(tx.query).toBeFunction()
      return { id: 'o1', at: input.on, total: input.amount }
    })
    expectTypeOf(order).toEqualTypeOf<{ id: string; at: string; total: number }>()
    if (order.total > 1000) return reply(402, { error: 'too_much' as const })
    return run.finish(() => reply(201, { id: order.id, at: order.at }))
  })
  const outcome = await operation.run({ tenant, key: 'k', input: { amount: 5, on: '2026-01-01' } })
  if (outcome.kind !== 'executed') throw new Error(outcome.kind)
  expectTypeOf(bodyOf(outcome.answer)).toEqualTypeOf<{ error: 'too_much' } | { id: string; at: string }>()
  expect(bodyOf(outcome.answer)).toEqual({ id: 'o1', at: '2026-01-01T00:00:00.000Z' })
  // @ts-expect-error a wrong input is an error of the compiler
  void (() => operation.run({ tenant, key: 'k', input: { amount: 'five' } }))
})

test('takes schemas of valibot and arktype too', async () => {
  const { once, tenant } = await setup(database)
  const schemas = {
    valibot: v.object({ amount: v.pipe(v.number(), v.minValue(1)) }),
    arktype: type({ amount: 'number > 0' }),
    zod: z.object({ amount: z.number().positive() }),
  }
  for (const [name, input] of Object.entries(schemas)) {
    const operation = once.operation(`schema-${name}`, { input: input as typeof schemas.zod }, (_, { amount }) => reply(201, { amount }))
    expect((await operation.run({ tenant, key: 'k', input: { amount: 1 } })).kind).toBe('executed')
    const invalid = await operation.run({ tenant, key: 'other', input: { amount: -1 } })
    expect(invalid).toMatchObject({ kind: 'invalid', issues: [expect.objectContaining({ message: expect.any(String) })] })
  }
})

test('stores nothing for an invalid input, so that the corrected one runs with the same key', async () => {
  const { once, tenant, key } = await setup(database)
  const operation = once.operation('corrected', { input: zodOrder }, () => reply(201))
  const attempt = (amount: number) => operation.run({ tenant, key: 'k', input: { amount, on: '2026-01-01' } })
  expect((await attempt(-1)).kind).toBe('invalid')
  expect(await key('k')).toBeUndefined()
  expect((await attempt(1)).kind).toBe('executed')
  // Now the key is known: an invalid input is another request.
  expect((await attempt(-1)).kind).toBe('mismatch')
})

test('replays a known key although the schema was tightened since', async () => {
  const { once, newOnce, tenant } = await setup(database)
  const before = once.operation('tightened', { input: z.object({ amount: z.number() }) }, () => reply(201))
  const after = newOnce().operation('tightened', { input: z.object({ amount: z.number().max(10) }) }, () => reply(201))
  await before.run({ tenant, key: 'k', input: { amount: 100 } })
  expect((await after.run({ tenant, key: 'k', input: { amount: 100 } })).kind).toBe('replayed')
  expect((await after.run({ tenant, key: 'new', input: { amount: 100 } })).kind).toBe('invalid')
})

test('resumes with the raw input that came first, before defaults and transforms', async () => {
  const { once, newOnce, tenant } = await setup(database)
  const before = once.operation('raw', { input: zodOrder }, () => {
    throw new Error('half-way')
  })
  await expect(before.run({ tenant, key: 'k', input: { amount: 1, on: '2026-01-01' } })).rejects.toThrow('half-way')
  const { rows } = await database.pool.query('select request from oncekey.keys where tenant = $1', [tenant])
  expect(JSON.parse(rows[0].request.toString())).toEqual({ amount: 1, on: '2026-01-01' })

  const seen: unknown[] = []
  const newDefault = zodOrder.extend({ currency: z.string().default('usd') })
  const after = newOnce().operation('raw', { input: newDefault }, (_, input) => {
    seen.push(input)
    return reply(201)
  })
  expect((await after.resume({ tenant, key: 'k' })).kind).toBe('executed')
  expect(seen).toEqual([{ amount: 1, currency: 'usd', on: new Date('2026-01-01') }])
  await expect(after.resume({ tenant, key: 'unknown' })).rejects.toMatchObject({ code: 'input_invalid' })
})

test('runs with what came first when a retry sends something that is merely equal', async () => {
  const { once, tenant } = await setup(database, { fingerprint: { exclude: { body: ['/sent_at'] } } })
  const seen: unknown[] = []
  const operation = once.operation('first-counts', {}, (run, input) => {
    seen.push(input)
    if (run.attempt === 1) throw new Error('half-way')
    return reply(201)
  })
  await expect(operation.run({ tenant, key: 'k', input: { amount: 1, sent_at: 'first' } })).rejects.toThrow('half-way')
  await operation.run({ tenant, key: 'k', input: { amount: 1, sent_at: 'second' } })
  expect(seen).toEqual([
    { amount: 1, sent_at: 'first' },
    { amount: 1, sent_at: 'first' },
  ])
})

test("makes the key from the input's own identity when the operation says how", async () => {
  const { once, tenant, key } = await setup(database)
  let runs = 0
  const operation = once.operation(
    'by-identity',
    { input: z.object({ order: z.string() }), key: ({ order }) => `charge-order-${order}` },
    () => {
      runs += 1
      return reply(201)
    },
  )
  await operation.run({ tenant, input: { order: '4127' } })
  expect((await operation.run({ tenant, input: { order: '4127' } })).kind).toBe('replayed')
  await operation.run({ tenant, input: { order: '4128' } })
  expect(runs).toBe(2)
  expect((await key('charge-order-4127')).state).toBe('complete')
  const without = once.operation('without-identity', {}, () => reply(201))
  await expect(without.run({ tenant, input: 1 })).rejects.toMatchObject({ code: 'key_invalid' })
})
