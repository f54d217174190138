import { afterEach, describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'
import { keysOf } from './keys.js'

const database = useDatabase()
const oncekey = commandLine(database.url)

/** These commands look at the whole table. */
afterEach(() => database.pool.query('truncate oncekey.keys, oncekey.steps, oncekey.jobs, oncekey.audit'))

async function expired(count: number) {
  for (let index = 0; index < count; index += 1) {
    const keys = keysOf(database)
    await keys.complete()
    await keys.pass(2 * 86_400_000)
  }
}

const left = async () => (await database.pool.query('select count(*)::integer as count from oncekey.keys')).rows[0].count as number

describe('reap', () => {
  test('deletes expired keys in batches, and nothing else', async () => {
    await expired(5)
    const kept = keysOf(database)
    await kept.complete()
    const parked = keysOf(database)
    await parked.inDoubt()
    await parked.pass(9 * 86_400_000)
    const pauses: number[] = []
    const told: string[] = []
    const paced = commandLine(database.url, {
      pause: async (ms) => void pauses.push(ms),
      progress: true,
      tell: (text) => void told.push(text),
    })
    const { exitCode, data } = await paced('reap', '--batch', '2', '--pause', '70ms', '--yes', '--json')
    expect([exitCode, data]).toEqual([0, { deleted: 5 }])
    // The look that finds nothing left comes after a pause, too.
    expect(pauses).toEqual([70, 70, 70])
    expect(told.slice(0, 3)).toEqual(['\r2 keys deleted', '\r4 keys deleted', '\r5 keys deleted'])
    expect(await left()).toBe(2)
  })

  test('stops at its limit', async () => {
    await expired(5)
    expect((await oncekey('reap', '--batch', '2', '--limit', '3', '--yes')).out).toBe('3 expired keys deleted.\n')
    expect(await left()).toBe(2)
  })

  test('asks, and says of how many', async () => {
    await expired(2)
    const questions: string[] = []
    const ask = async (question: string) => {
      questions.push(question)
      return ''
    }
    expect((await commandLine(database.url, { ask })('reap')).exitCode).toBe(3)
    expect(questions).toEqual(['Delete 2 expired keys? [y/N] '])
    expect((await oncekey('reap')).exitCode).toBe(2)
    expect(await left()).toBe(2)
  })

  test('does not ask when there is nothing to do', async () => {
    expect(await oncekey('reap')).toMatchObject({ exitCode: 0, out: '0 expired keys deleted.\n', err: '' })
  })
})

describe('sweep', () => {
  test.each([
    ['rerun', 'pending', 'swept'],
    ['store', 'failed', 'failed'],
    ['park', 'parked', 'parked'],
  ] as const)('ends a wait as the key says: %s', async (afterFailure, state, what) => {
    const keys = keysOf(database)
    const lease = await keys.held({ afterFailure })
    const { exitCode, data } = await oncekey('sweep', '--yes', '--json')
    expect([exitCode, data]).toEqual([0, { pending: 0, failed: 0, parked: 0, [state]: 1 }])
    const reason = 'the holder stopped without a word'
    expect(await keys.row()).toMatchObject({ state, waiting: state === 'pending', fence: 2, locked_until: null, reason })
    expect(await keys.trail()).toEqual([{ what, detail: `${reason} (swept by alice)`, fence: 2 }])
    expect(await keys.store.keyRelease({ lease })).toBe('lost')
    const next = await keys.again()
    expect(next).toMatchObject({ kind: { rerun: 'executed', store: 'replayed', park: 'parked' }[afterFailure] })
    if (next.kind === 'replayed' || next.kind === 'parked') expect(next.answer.status).toBe(500)
    expect((await oncekey('show', ...keys.name, '--json')).data).toMatchObject({ attempts: afterFailure === 'rerun' ? 2 : 1 })
  })

  test('leaves a live lease, a locked row and everything else alone', async () => {
    const [live, locked, waiting] = [keysOf(database), keysOf(database), keysOf(database)]
    await live.held({ over: false })
    await waiting.pending()
    await locked.held()
    const client = await database.pool.connect()
    try {
      await client.query('begin')
      await client.query('select from oncekey.keys where tenant = $1 for update', [locked.tenant])
      expect((await oncekey('sweep', '--yes', '--json')).data).toEqual({ pending: 0, failed: 0, parked: 0 })
    } finally {
      await client.query('rollback')
      client.release()
    }
    expect(await live.row()).toMatchObject({ state: 'processing', fence: 1 })
    expect(await waiting.row()).toMatchObject({ state: 'pending', fence: 1 })
    expect((await oncekey('sweep', '--yes')).out).toBe('1 key may run again, 0 failed, 0 parked: outcome unknown.\n')
  })

  test('asks first', async () => {
    const keys = keysOf(database)
    await keys.held()
    expect((await oncekey('sweep')).exitCode).toBe(2)
    expect((await commandLine(database.url, { ask: async () => 'no' })('sweep')).exitCode).toBe(3)
    expect(await keys.row()).toMatchObject({ state: 'processing' })
  })
})

describe('status', () => {
  test('counts keys by state, what is late, and the room it takes', async () => {
    for (const make of ['complete', 'inDoubt', 'held'] as const) await keysOf(database)[make]()
    const waiting = keysOf(database)
    await waiting.pending()
    await waiting.pass(60_000)
    await database.pool.query(
      `insert into oncekey.jobs select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', now() - interval '5 minutes'`,
    )
    const { exitCode, data } = await oncekey('status', '--json')
    expect(exitCode).toBe(0)
    expect(data.states).toEqual({ pending: 1, processing: 1, complete: 1, failed: 0, parked: 1 })
    expect(data.stuck).toMatchObject({ count: 1 })
    expect(data.stuck.ageMs).toBeGreaterThan(90_000)
    expect(data.overdue).toMatchObject({ count: 1 })
    expect(data.outbox).toMatchObject({ count: 1 })
    expect(Math.round(data.outbox.ageMs / 60_000)).toBe(5)
    expect(new Date(data.outbox.since).toISOString()).toBe(data.outbox.since)
    expect(data.tables.map(({ name }: { name: string }) => name).sort()).toEqual(['audit', 'jobs', 'keys', 'migrations', 'steps', 'upkeep'])
    expect(data.tables.find(({ name }: { name: string }) => name === 'keys')).toMatchObject({
      autovacuum: true,
      tableBytes: expect.any(Number),
    })
    expect(data.trouble.map(({ name }: { name: string }) => name)).toEqual(['stuck', 'parked', 'outbox'])
    const { out } = await oncekey('status')
    expect(out).toMatch(/^processing +1 {2}1 past the lease, the oldest for 1m/m)
    expect(out).toMatch(/^outbox +1 {2}jobs not delivered, the oldest late by 5m/m)
    expect(out).toMatch(/^ {2}keys_waiting +.* B$|^ {2}keys_waiting +.*kB$/m)
  })

  test('tells the lag of the outbox from what was given up, and from what is not due', async () => {
    const job = (staged: string, due: string, dead: string) =>
      database.pool.query(
        `insert into oncekey.jobs (tenant, id, key_id, incarnation, name, payload, staged_at, due_at, dead_at)
         select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', now() + $1, now() + $2, now() + $3`,
        [staged, due, dead === '' ? null : dead],
      )
    await job('-1 hour', '1 hour', '')
    expect((await oncekey('status', '--json')).data).toMatchObject({ outbox: { count: 1, since: null, ageMs: null }, trouble: [] })
    await job('-1 hour', '-5 minutes', '')
    await job('-9 hours', '-9 hours', '-8 hours')
    const { data } = await oncekey('status', '--json')
    expect([data.outbox.count, Math.round(data.outbox.ageMs / 60_000)]).toEqual([2, 5])
    expect([data.deadLetters.count, Math.round(data.deadLetters.ageMs / 3_600_000)]).toEqual([1, 8])
    expect(data.trouble.map(({ name }: { name: string }) => name)).toEqual(['outbox', 'dead letters'])
    expect((await oncekey('status')).out).toMatch(/^dead +1 {2}jobs to retry or discard; the first dead for 8h/m)
    await database.pool.query('delete from oncekey.jobs where dead_at is null')
    expect((await oncekey('status', '--check', '--late', '1000h')).exitCode).toBe(5)
  })

  test('is trouble for --check only, and only when it is late enough', async () => {
    expect((await oncekey('status', '--check')).exitCode).toBe(0)
    const keys = keysOf(database)
    await keys.held()
    expect((await oncekey('status')).exitCode).toBe(0)
    expect((await oncekey('status', '--check', '--json')).exitCode).toBe(5)
    expect((await oncekey('status', '--check', '--late', '1h')).exitCode).toBe(0)
    await oncekey('sweep', '--yes')
    expect((await oncekey('status', '--check')).exitCode).toBe(0)
    await keys.pass(120_000)
    expect((await oncekey('status', '--check')).exitCode).toBe(5)
  })
})
