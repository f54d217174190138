// A process that is frozen while the server sends it a large row keeps the statement from being committed: everything it wrote stays locked.
import { expect, test } from 'vitest'
import { statusOf } from '../../src/http/status.js'
import { type Answer, createOnce, reply } from '../../src/index.js'
import { type Connection, fromPg, postgresStore, type Queryable } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, again, assertReplays, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'

const database = useDatabase()
const most = 64 * 1024

/** As a server sends them: each value as a text, with its length. */
const bytesOf = (rows: readonly object[]) =>
  rows.flatMap((row) => Object.values(row)).reduce((sum: number, value) => sum + 4 + (value === null ? 0 : String(value).length), 0)

/** A connection whose statements are weighed: those that write, by what they return. */
function weighed<Tx>(connection: Connection<Tx>) {
  const written: { readonly text: string; readonly bytes: number }[] = []
  const read: string[] = []
  /** The bytes of what each statement was sent with. */
  const sent: number[] = []
  /** Statements of their own for large answers: how many are under way, and how many were at most. */
  const large = { now: 0, most: 0 }
  const weighing = (db: Queryable): Queryable => ({
    endsInTime: db.endsInTime,
    mark: db.mark,
    get sendsBinary() {
      return db.sendsBinary
    },
    async query(text, values, options) {
      sent.push(values.reduce((sum: number, value) => sum + (value instanceof Uint8Array ? value.length : String(value).length), 0))
      const isLarge = /^\s*select answer_status, /.test(text)
      large.now += isLarge ? 1 : 0
      large.most = Math.max(large.most, large.now)
      const rows = await db.query(text, values, options)
      large.now -= isLarge ? 1 : 0
      if (/\b(insert into|update|delete from)\b/.test(text)) written.push({ text, bytes: bytesOf(rows) })
      else read.push(text)
      return rows
    },
  })
  const whole: Connection<Tx> = {
    ...weighing(connection),
    within: (tx) => weighing(connection.within(tx)),
    transaction: (work, times) => connection.transaction(work, times),
    script: (tx, text) => connection.script(tx, text),
  }
  return { connection: whole, written, read, sent, large }
}

function setup() {
  const { connection, written, read, sent, large } = weighed(fromPg(database.createPool({ max: 4 })))
  const heaviest = () => Math.max(0, ...written.map(({ bytes }) => bytes))
  return { store: postgresStore(connection), heaviest, read, written, sent, large }
}

const answerOf = (bytes: number): Answer => ({ status: 200, headers: [['x', 'y']], body: Buffer.alloc(bytes, `${bytes} `) })

async function answered(bytes: number, request: Uint8Array | null = null) {
  const store = postgresStore(fromPg(database.pool))
  const claim = aClaim({ request })
  await store.keyFinish(aFinish(await take(store, claim), { answer: answerOf(bytes) }))
  return claim
}

test.each([0, 1, 300, 32 * 1024 - 9, 32 * 1024, 200_000, 3_000_000])(
  'an answer of %i bytes is replayed whole, and no write returns it if it is large',
  async (bytes) => {
    const { store, heaviest } = setup()
    const claim = await answered(bytes)
    await assertReplays(store, claim, answerOf(bytes))
    expect((await store.keyRead(claim))?.answer?.body.length).toBe(bytes)
    expect(heaviest()).toBeLessThanOrEqual(most)
  },
)

test('headers full of quotes are replayed whole by a lone claim, and take no more room than they are long', async () => {
  const answer: Answer = { status: 200, headers: [['etag', '"\\'.repeat(8_100)]], body: new Uint8Array() }
  const { store, heaviest, read } = setup()
  const claim = aClaim()
  await store.keyFinish(aFinish(await take(store, claim), { answer }))
  read.length = 0
  await assertReplays(store, claim, answer)
  expect(read).toEqual([])
  expect(heaviest()).toBeLessThanOrEqual(36 * 1024)
})

test('replays of a batch share one statement while they are small, and a second one that only reads has the rest', async () => {
  const small = await Promise.all(Array.from({ length: 30 }, () => answered(300)))
  const { store, heaviest, read } = setup()
  await take(store, aClaim())
  const before = read.length
  const verdicts = await Promise.all(small.map((claim) => store.keyClaim(again(claim))))
  expect(verdicts.every(({ kind }) => kind === 'replay')).toBe(true)
  expect(read.length).toBe(before)

  const mixed = await Promise.all(
    [1_000_000, 1_000_000, 1_000_000, ...Array.from({ length: 60 }, () => 3_000)].map((bytes) => answered(bytes)),
  )
  const replays = await Promise.all([...mixed, ...mixed].map((claim) => store.keyClaim(again(claim))))
  expect(replays.map((verdict) => verdict.kind === 'replay' && verdict.answer.body.length)).toEqual(
    [0, 1].flatMap(() => [1_000_000, 1_000_000, 1_000_000, ...Array.from({ length: 60 }, () => 3_000)]),
  )
  expect(heaviest()).toBeLessThanOrEqual(most)
})

test('replays of a batch with long names return no more than others', async () => {
  const name = (index: number) => `${index} `.padEnd(255, 'n')
  const long = await Promise.all(
    Array.from({ length: 120 }, async (_, index) => {
      const claim = aClaim({ tenant: name(0), scope: name(1), key: name(index) })
      const writer = postgresStore(fromPg(database.pool))
      await writer.keyFinish(aFinish(await take(writer, claim), { answer: answerOf(10) }))
      return claim
    }),
  )
  const { store, heaviest } = setup()
  const replays = await Promise.all(long.map((claim) => store.keyClaim(again(claim))))
  expect(replays.every(({ kind }) => kind === 'replay')).toBe(true)
  expect(heaviest()).toBeLessThanOrEqual(most)
})

test('no more than 64 MiB of answers are read at the same time', async () => {
  const bytes = 5_000_000
  const claim = await answered(bytes)
  const { store, large } = setup()
  const ask = async () => {
    const verdict = await store.keyClaim(again(claim))
    return verdict.kind === 'replay' && verdict.answer.body.length
  }
  expect(new Set(await Promise.all(Array.from({ length: 30 }, ask)))).toEqual(new Set([bytes]))
  expect(large.most).toBeGreaterThan(1)
  expect(large.most * bytes).toBeLessThanOrEqual(64 * 1024 * 1024)
})

test('no batch sends more than 4 MiB of requests, answers, steps or jobs', async () => {
  const { store, sent } = setup()
  const million = 1_000_000
  const many = <T>(make: (index: number) => T) => Array.from({ length: 12 }, (_, index) => make(index))
  const held = await Promise.all(many(() => take(store, aClaim({ request: new Uint8Array(million) }))))
  await Promise.all(held.slice(0, 6).map((one) => store.keyFinish(aFinish(one, { answer: answerOf(million) }))))
  const step = { name: 's', position: 0, kind: 'phase', result: JSON.stringify('x'.repeat(million)) } as const
  await Promise.all(held.slice(6).map(({ lease }) => store.keyRelease({ lease, steps: [step] })))
  // Of a batch, and not each in a statement of its own.
  expect(sent.filter((bytes) => bytes > 2 * million).length).toBeGreaterThanOrEqual(3)
  expect(Math.max(...sent)).toBeLessThanOrEqual(4 * 1024 * 1024 + 64 * 1024)
})

test('duplicates that share a row each get bytes of their own', async () => {
  const { store } = setup()
  const claim = await answered(300)
  const replays = await Promise.all(Array.from({ length: 6 }, () => store.keyClaim(again(claim))))
  const bodies = replays.map((verdict) => (verdict.kind === 'replay' ? verdict.answer.body : new Uint8Array()))
  bodies[0]?.fill(0)
  for (const body of bodies.slice(1)) expect(Buffer.from(body)).toEqual(answerOf(300).body)
})

test('a request of any size is there for the next holder, and no take-over returns it if it is large', async () => {
  for (const bytes of [10, 12 * 1024, 2_000_000]) {
    const { store, heaviest } = setup()
    const claim = aClaim({ request: new Uint8Array(bytes).fill(7) })
    await store.keyRelease(await take(store, claim))
    const { request } = await take(store, again(claim, { worker: true }))
    expect(request?.length).toBe(bytes)
    expect(heaviest()).toBeLessThanOrEqual(most)
  }
})

test('waiting for a key with a large request reads it not once', async () => {
  const { store, read, heaviest } = setup()
  const claim = aClaim({ request: new Uint8Array(5_000_000) })
  await take(store, claim)
  for (let asks = 0; asks < 20; asks += 1) expect((await store.keyClaim(again(claim))).kind).toBe('in-progress')
  expect(read.filter((text) => text.includes('request'))).toEqual([])
  expect(heaviest()).toBeLessThanOrEqual(most)
})

test('the status of a large request does not read it, and a worker reads it once', async () => {
  const { store, read } = setup()
  const once = createOnce({ store })
  const operation = once.operation('polled', {}, () => reply(200))
  const accepted = await operation.enqueue({ tenant: 'polled', key: 'k', input: { text: 'x'.repeat(5_000_000) } })
  const id = accepted.kind === 'enqueued' ? accepted.id : ''
  const requestsRead = () => read.filter((text) => text.includes('as request')).filter((text) => !text.includes('request_left')).length
  const status = statusOf({ internals: once.internals, execute: once.execute } as typeof once, { tenant: () => 'polled' })
  for (let polls = 0; polls < 10; polls += 1) {
    const answer = await status.answer({ method: 'GET', path: `/operations/${id}`, query: '', headers: [], native: {} } as never)
    expect(answer?.status).toBe(200)
  }
  expect(requestsRead()).toBe(0)
  expect((await operation.resume({ tenant: 'polled', key: 'k' })).kind).toBe('executed')
  expect(requestsRead()).toBe(1)
})

/** Names as long as they may be, but for few characters, and no two alike. */
const longName = (index: number) => `${index}-`.padEnd(250, 'n')

test('background work on many keys and jobs with long names returns little', async () => {
  const { store, heaviest, written } = setup()
  const { outbox, upkeep } = store
  const tenant = longName(0)
  const claims = Array.from({ length: 1_200 }, (_, index) => aClaim({ tenant, scope: longName(1), key: longName(index), leaseMs: 1 }))
  for (let at = 0; at < claims.length; at += 200) await Promise.all(claims.slice(at, at + 200).map((claim) => take(store, claim)))
  await new Promise((resolve) => setTimeout(resolve, 5))
  written.length = 0
  const sweep = await upkeep.keysSweep({ holder: crypto.randomUUID(), turnMs: 1_000, limit: 5_000 })
  const swept = sweep.turn ? sweep.swept.filter((key) => key.tenant === tenant) : []
  expect(new Set(swept.map(({ scope, key, to }) => `${scope} ${key} ${to}`))).toEqual(
    new Set(claims.map(({ scope, key }) => `${scope} ${key} pending`)),
  )
  expect(heaviest()).toBeLessThanOrEqual(most)

  await database.pool.query(`update oncekey.keys set expires_at = now() - interval '2 days' where tenant = $1`, [tenant])
  const ended = new Set<string>()
  for (let more = true; more; ) {
    const some = await upkeep.keysTimeOut({ limit: 500 })
    for (const { key, to } of some) ended.add(`${key} ${to}`)
    more = some.length > 0
  }
  expect(ended).toEqual(new Set(claims.map(({ key }) => `${key} parked`)))
  expect(heaviest()).toBeLessThanOrEqual(most)

  await database.pool.query(
    `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at)
     select $1, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', repeat('1', 200), now(), now() from generate_series(1, 600)`,
    ['tenant'],
  )
  const token = crypto.randomUUID()
  const taken = []
  for (let takes = 0; takes < 3; takes += 1)
    taken.push(...(await outbox.jobsTake({ token, leaseMs: 60_000, limit: 200, heldByDead: true })).jobs)
  expect(taken).toHaveLength(600)
  const settled = await outbox.jobsSettle({ jobs: taken.map(({ id }) => ({ tenant: 'tenant', id, token, as: 'delivered' })) })
  expect(settled.every((result) => result === 'done')).toBe(true)
  expect(heaviest()).toBeLessThanOrEqual(most)
})

test('local work replays a large answer inside its transaction', async () => {
  const { store, heaviest } = setup()
  const once = createOnce({ store, maxAnswerBytes: 4_000_000 })
  const local = once.local('large', {}, () => reply(200, 'x'.repeat(3_000_000)))
  const request = { tenant: 'large', key: 'k', input: {} }
  await local.run(request)
  const replayed = await local.run(request)
  expect(replayed.kind === 'replayed' && replayed.answer.body.length).toBe(3_000_002)
  expect(heaviest()).toBeLessThanOrEqual(most)
})
