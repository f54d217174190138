// What adapters say of a request besides its input.
import { expect, test } from 'vitest'
import { z } from 'zod'
import { type OperationOutcome, type Reply, type RunRequest, reply } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { setup } from './setup.js'

const database = useDatabase()

/** An operation and a piece of local work that count how often they ran. */
async function both() {
  const bundle = await setup(database)
  const input = z.object({ amount: z.number() })
  let runs = 0
  const work = () => reply(201, { runs: ++runs })
  const operation = bundle.once.operation('operation', { input }, work)
  const local = bundle.once.local('local', { input }, work)
  type Request = Omit<RunRequest<never>, 'tenant' | 'input'> & { input: unknown }
  const ways = [operation, local].map(({ name, run }) => ({
    name,
    run: ({ key = 'k', ...request }: Request) =>
      run({ tenant: bundle.tenant, key, ...request } as RunRequest<never>) as Promise<OperationOutcome<Reply>>,
  }))
  return { ...bundle, ways, runs: () => runs }
}

const issues = [{ message: 'the body is not JSON' }]

test('compares what the request asked for, when that is more than its input', async () => {
  const { ways, runs } = await both()
  for (const { run } of ways) {
    const input = { amount: 1 }
    const fingerprint = { method: 'POST', path: '/orders', mediaType: 'application/json', body: '{"amount":1}' }
    expect(await run({ input, fingerprint })).toMatchObject({ kind: 'executed' })
    expect(await run({ input, fingerprint: { ...fingerprint, body: '{ "amount": 1.0 }' } })).toMatchObject({ kind: 'replayed' })
    expect(await run({ input, fingerprint: { ...fingerprint, path: '/refunds' } })).toEqual({ kind: 'mismatch', part: 'path' })
    // Compared is what was asked for, and not the input besides.
    expect(await run({ input: { amount: 2 }, fingerprint })).toMatchObject({ kind: 'replayed' })
    // Without it, the input is what is compared.
    expect(await run({ input })).toMatchObject({ kind: 'mismatch' })
  }
  expect(runs()).toBe(2)
})

test('calls input invalid that could not be read, and stores nothing', async () => {
  const { ways, runs, key } = await both()
  for (const { run } of ways) {
    expect(await run({ input: { amount: 1 }, issues })).toEqual({ kind: 'invalid', issues })
    expect(await run({ input: undefined, issues })).toEqual({ kind: 'invalid', issues })
    // Nothing of it is looked at, not even whether it could be kept.
    expect(await run({ input: () => {}, issues, fingerprint: { body: 'not json' } })).toEqual({ kind: 'invalid', issues })
  }
  expect(runs()).toBe(0)
  expect(await key('k')).toBeUndefined()
})

test('treats input that could not be read like any other when the key is known', async () => {
  const { ways, runs } = await both()
  for (const { run } of ways) {
    const fingerprint = { body: '{"amount":1' }
    await run({ input: { amount: 1 }, fingerprint })
    expect(await run({ input: null, issues, fingerprint })).toMatchObject({ kind: 'replayed', answer: { status: 201 } })
    expect(await run({ input: null, issues, fingerprint: { body: '{"amount":2' } })).toEqual({ kind: 'mismatch', part: 'body' })
  }
  expect(runs()).toBe(2)
})

test('tells input that could not be read to wait while the key is worked on', async () => {
  const { once, tenant } = await setup(database)
  const fingerprint = { body: '{' }
  const operation = once.operation('unread', {}, async () => {
    expect(await operation.run({ tenant, key: 'k', input: null, issues, fingerprint })).toMatchObject({ kind: 'in-progress' })
    return reply(200)
  })
  expect((await operation.run({ tenant, key: 'k', input: null, fingerprint })).kind).toBe('executed')
})

test('cannot make a key of input that could not be read', async () => {
  const { once, tenant } = await setup(database)
  const byIdentity = once.operation('by-identity', { key: () => 'made' }, () => reply(201))
  expect(await byIdentity.run({ tenant, input: {}, issues })).toEqual({ kind: 'invalid', issues })
})

test('stores an error of the body, or does not, as the request says', async () => {
  const { once, tenant } = await setup(database)
  const throws = () => Promise.reject(new Error('broken'))
  const resumes = once.operation('resumes', {}, throws)
  const stores = once.operation('stores', { storeErrors: true }, throws)
  const local = once.local('local', {}, throws)
  const kept = async (operation: { run(request: RunRequest<unknown>): Promise<{ kind: string }> }, storeErrors: boolean) => {
    const request = { tenant, key: `k ${storeErrors}`, input: null, storeErrors }
    await expect(operation.run(request)).rejects.toThrow('broken')
    return operation.run(request).then(
      ({ kind }) => kind,
      () => 'ran again',
    )
  }
  expect(await kept(resumes, true)).toBe('replayed')
  expect(await kept(stores, false)).toBe('ran again')
  // Local work leaves nothing behind, whatever is asked.
  expect(await kept(local, true)).toBe('ran again')
})

test('names the life of the key with every answer, for all ways to run', async () => {
  const { ways, once, tenant, pool } = await both()
  const finishes = once.operation('finishes', {}, (run) => run.finish(() => reply(201, { incarnation: run.incarnation })))
  const within = async () => {
    const tx = await pool.connect()
    try {
      await tx.query('begin')
      const outcome = await once.within(tx, { tenant, scope: 'within', key: 'k' }, () => {})
      await tx.query('commit')
      return outcome
    } finally {
      tx.release()
    }
  }
  const run = [...ways.map((way) => () => way.run({ input: { amount: 1 } })), () => finishes.run({ tenant, key: 'k', input: null }), within]
  const livesOf = async (act: () => Promise<object>) => {
    const [first, replay] = [await act(), await act()] as { kind: string; incarnation: string }[]
    expect([first?.kind, replay?.kind]).toEqual(['executed', 'replayed'])
    expect(replay?.incarnation).toBe(first?.incarnation)
    return first?.incarnation
  }
  for (const act of run) {
    const first = await livesOf(act)
    const { rows } = await pool.query('select incarnation::text from oncekey.keys where tenant = $1 and incarnation = $2', [tenant, first])
    expect(rows).toHaveLength(1)
    await pool.query(`update oncekey.keys set expires_at = now() where tenant = $1`, [tenant])
    expect(await livesOf(act)).not.toBe(first)
  }
})
