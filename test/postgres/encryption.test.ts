import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { type Answer, createOnce, type EncryptionOptions, type OnceOptions, reply, sealedStore } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { postgresHarness } from '../support/postgres/harness.js'

const database = useDatabase()

const newKey = (id: string) => ({ id, key: randomBytes(32) })
const [k1, k2] = [newKey('k1'), newKey('k2')]
const secret = 'hunter2'
const answer = reply(201, { token: secret }, { location: `/tokens/${secret}`, link: ['</a>', '</b>'] })

function setup(options: Partial<OnceOptions<pg.PoolClient>> = { encryption: { keys: [k1] } }) {
  const tenant = `tenant-${crypto.randomUUID()}`
  const { pool } = database
  const create = (encryption: EncryptionOptions | undefined) =>
    createOnce({ store: postgresStore(fromPg(pool)), ...options, ...(encryption ? { encryption } : {}) })
  const once = create(undefined)
  /** Everything that the database has of this tenant's keys, as text in which bytes would be found. */
  async function inTheTables(): Promise<string> {
    const { rows } = await pool.query<{ row: string; bytes: Buffer | null }>(
      `select to_jsonb(keys)::text as row, coalesce(answer_body, ''::bytea) || coalesce(request, ''::bytea) as bytes
       from oncekey.keys where tenant = $1
       union all select to_jsonb(audit)::text, null from oncekey.audit where tenant = $1`,
      [tenant],
    )
    return rows.map(({ row, bytes }) => `${row} ${bytes?.toString('latin1') ?? ''}`).join('\n')
  }
  const state = async (key: string) => {
    const { rows } = await pool.query('select state, fence, reason from oncekey.keys where tenant = $1 and key = $2', [tenant, key])
    return rows[0] as { state: string; fence: number; reason: string | null } | undefined
  }
  return { tenant, once, create, inTheTables, state, pool }
}

/** The four ways to do work once, each with a secret in its request, its headers and its body. */
function waysOf(once: ReturnType<typeof createOnce<pg.PoolClient>>, tenant: string, work: () => Answer) {
  const returned = once.operation('returned', {}, work)
  const finished = once.operation('finished', {}, (run) => run.finish(work))
  const local = once.local('local', {}, work)
  const input = { password: secret }
  return {
    execute: () =>
      once.execute(
        { tenant, scope: 'execute', key: 'k', fingerprint: { value: input }, afterFailure: 'rerun', request: Buffer.from(secret) },
        work,
      ),
    returned: () => returned.run({ tenant, key: 'k', input }),
    finished: () => finished.run({ tenant, key: 'k', input }),
    local: () => local.run({ tenant, key: 'k', input }),
    async within() {
      const tx = await database.pool.connect()
      try {
        await tx.query('begin')
        const outcome = await once.within(tx, { tenant, scope: 'within', key: 'k' }, work)
        await tx.query('commit')
        return outcome
      } finally {
        tx.release()
      }
    },
  }
}

const neverRun = () => {
  throw new Error('must not run')
}

test('leaves nothing of the request and the answer readable, and replays the same answer, whichever way the work is done', async () => {
  const { once, create, tenant, inTheTables } = setup()
  const first = waysOf(once, tenant, () => answer)
  for (const run of Object.values(first)) expect(await run()).toMatchObject({ kind: 'executed', answer })
  const text = await inTheTables()
  expect(text.match(/"state": "complete"/g)).toHaveLength(5)
  expect(text).not.toContain(secret)
  expect(text).not.toContain('location')

  const again = waysOf(create(undefined), tenant, neverRun)
  for (const run of Object.values(again)) expect(await run()).toMatchObject({ kind: 'replayed', state: 'complete', answer })
})

test('would find the secret in the tables if it were there', async () => {
  const { once, tenant, inTheTables } = setup({})
  await waysOf(once, tenant, () => answer).returned()
  expect((await inTheTables()).split(secret)).toHaveLength(1 + 3)
})

test('reads what an earlier key sealed, and refuses it without that key, without running anything', async () => {
  const { once, create, tenant, state } = setup()
  for (const run of Object.values(waysOf(once, tenant, () => answer))) await run()

  const rotated = waysOf(create({ keys: [k2, k1] }), tenant, neverRun)
  for (const run of Object.values(rotated)) expect(await run()).toMatchObject({ kind: 'replayed', answer })

  const tooEarly = waysOf(create({ keys: [k2] }), tenant, neverRun)
  const wrong = waysOf(create({ keys: [{ ...k2, id: 'k1' }] }), tenant, neverRun)
  const off = waysOf(createOnce({ store: postgresStore(fromPg(database.pool)) }), tenant, neverRun)
  for (const run of Object.values(tooEarly)) await expect(run()).rejects.toMatchObject({ code: 'encryption_key_missing' })
  for (const run of Object.values(off)) await expect(run()).rejects.toMatchObject({ code: 'encryption_key_missing' })
  for (const run of Object.values(wrong)) await expect(run()).rejects.toMatchObject({ code: 'answer_unreadable' })
  expect(await state('k')).toMatchObject({ state: 'complete', fence: 1 })
})

test('reads what was stored before encryption was switched on', async () => {
  const { once, create, tenant } = setup({})
  for (const run of Object.values(waysOf(once, tenant, () => answer))) await run()
  const inTheClear = { ...answer, body: Buffer.from(answer.body) }
  for (const run of Object.values(waysOf(create({ keys: [k1] }), tenant, neverRun))) {
    expect(await run()).toMatchObject({ kind: 'replayed', answer: inTheClear })
  }
})

test('does not open a row into which another answer was copied', async () => {
  const { once, tenant, pool } = setup()
  const run = (key: string, work: () => Answer) =>
    once.execute({ tenant, scope: 's', key, fingerprint: false, afterFailure: 'rerun' }, work)
  await run('mine', () => reply(200, 'mine'))
  await run('yours', () => reply(200, 'yours'))
  await pool.query(
    `update oncekey.keys as mine set answer_headers = yours.answer_headers, answer_body = yours.answer_body
     from oncekey.keys as yours where mine.tenant = $1 and mine.key = 'mine' and yours.tenant = $1 and yours.key = 'yours'`,
    [tenant],
  )
  await expect(run('mine', neverRun)).rejects.toMatchObject({ code: 'answer_unreadable' })
  expect((await run('yours', neverRun)).kind).toBe('replayed')
})

test('resumes an operation from its sealed request, by a retry and by a worker, after a rotation too', async () => {
  const { create, tenant, inTheTables, state } = setup()
  const inputs: unknown[] = []
  const operation = (encryption: EncryptionOptions, work: () => Answer) =>
    create(encryption).operation('resumed', {}, async (_, input) => {
      inputs.push(input)
      return work()
    })
  const crash = operation({ keys: [k1] }, () => {
    throw new Error('not now')
  })
  const input = { password: secret }
  for (const key of ['retried', 'resumed']) await expect(crash.run({ tenant, key, input })).rejects.toThrow('not now')
  expect(await inTheTables()).not.toContain(secret)

  // A process that does not have the key yet leaves the operation as it found it.
  const behind = operation({ keys: [k2] }, neverRun)
  await expect(behind.resume({ tenant, key: 'resumed' })).rejects.toMatchObject({ code: 'encryption_key_missing' })
  await expect(behind.run({ tenant, key: 'retried', input })).rejects.toMatchObject({ code: 'encryption_key_missing' })
  expect((await state('retried'))?.state).toBe('pending')

  const rotated = operation({ keys: [k2, k1] }, () => answer)
  expect(await rotated.run({ tenant, key: 'retried', input })).toMatchObject({ kind: 'executed', answer })
  expect(await rotated.resume({ tenant, key: 'resumed' })).toMatchObject({ kind: 'executed', answer })
  expect(inputs).toEqual([input, input, input, input])
})

test('seals what a person says of a parked key', async () => {
  const { once, tenant, inTheTables } = setup()
  const park = once.operation('parked', {}, async (run) => {
    await run.call('charge', neverRun, { whenUnknown: 'park' })
    return answer
  })
  const request = { tenant, key: 'k', input: { password: secret } }
  expect((await park.run(request)).kind).toBe('parked')
  expect((await park.run(request)).kind).toBe('parked')
  await once.resolve({ tenant, scope: 'parked', key: 'k' }, { as: 'failed', reply: answer, by: 'alice' })
  expect(await inTheTables()).not.toContain(secret)
  expect(await park.run(request)).toMatchObject({ kind: 'replayed', state: 'failed', answer })
})

test('replays what the store itself settled, which is in the clear', async () => {
  const { advance } = await postgresHarness(fromPg(database.pool))
  const { once, tenant } = setup({ encryption: { keys: [k1] }, lease: '1h' })
  const request = { tenant, scope: 's', key: 'k', fingerprint: false, afterFailure: 'store' } as const
  let crashed = () => {}
  const holding = new Promise<never>((_, reject) => {
    crashed = () => reject(new Error('the holder comes back'))
  })
  const holder = once.execute(request, () => holding)
  const settled = await (async () => {
    for (;;) {
      const outcome = await once.execute(request, neverRun)
      if (outcome.kind !== 'in-progress') return outcome
      await advance(3_600_000)
    }
  })()
  expect(settled).toMatchObject({ kind: 'replayed', state: 'failed', answer: { status: 500 } })
  expect(await once.execute(request, neverRun)).toMatchObject({ kind: 'replayed', state: 'failed' })
  crashed()
  await expect(holder).rejects.toThrow('the holder comes back')
})

test('lets whoever has the keys read a key by hand', async () => {
  const { once, tenant } = setup()
  await waysOf(once, tenant, () => answer).execute()
  const ref = { tenant, scope: 'execute', key: 'k' }
  const store = postgresStore(fromPg(database.pool))
  const record = await sealedStore(store, { keys: [k1] }).keyRead(ref)
  expect([record?.answer, record?.request?.toString()]).toEqual([answer, Uint8Array.from(Buffer.from(secret)).toString()])
  expect((await store.keyRead(ref))?.answer?.headers).toEqual([['oncekey-sealed', 'k1']])
})

test('tells by the statement of the guide which keys are in use', async () => {
  const guide = readFileSync(new URL('../../docs/guide/secrets.md', import.meta.url), 'utf8')
  const [, sql = ''] = /```sql\n(.*?)```/s.exec(guide) ?? []
  const [answers, inputs] = [newKey('for the answer'), newKey('for the input')]
  const { create, tenant } = setup({})
  const operation = (encryption: EncryptionOptions | undefined, work: () => Answer) => create(encryption).operation('guide', {}, work)
  await expect(operation({ keys: [inputs] }, neverRun).run({ tenant, key: 'k', input: 1 })).rejects.toThrow('must not run')
  await operation({ keys: [answers, inputs] }, () => reply(200)).run({ tenant, key: 'k', input: 1 })
  await operation(undefined, () => reply(200)).run({ tenant, key: 'plain', input: 1 })
  const { rows } = await database.pool.query<{ encryption_key: string; count: string }>(sql)
  const counts = Object.fromEntries(rows.map(({ encryption_key, count }) => [encryption_key, count]))
  expect(counts).toMatchObject({ 'for the answer': '1', 'for the input': '1' })
})

test.each([undefined, { keys: [k1] }])(
  'work whose answer is larger than can be counted is done once in every way, encrypted or not',
  async (encryption) => {
    const { tenant, once } = setup(encryption ? { encryption } : {})
    let runs = 0
    const work = (): Answer => {
      runs += 1
      return { status: 200, headers: [], body: new Uint8Array(), omittedBytes: 5 * 2 ** 30 }
    }
    const ways = Object.values(waysOf(once, tenant, work))
    for (const way of ways) {
      expect(await way()).toMatchObject({ kind: 'executed' })
      expect(await way()).toMatchObject({ kind: 'replayed', answer: { omittedBytes: 2 ** 31 - 1 } })
    }
    expect(runs).toBe(ways.length)
  },
)
