import { describe, expect, test } from 'vitest'
import { bodyOf } from '../../src/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'
import { keysOf } from './keys.js'

const database = useDatabase()
const oncekey = commandLine(database.url)
const person = (answer: string, meanwhile: () => Promise<unknown> = async () => {}) => {
  const questions: string[] = []
  const ask = async (question: string) => {
    questions.push(question)
    await meanwhile()
    return answer
  }
  return { oncekey: commandLine(database.url, { ask }), questions }
}

describe('retry', () => {
  test('makes a waiting key due now, gives it all its attempts back, and notes who did it', async () => {
    const keys = keysOf(database)
    await keys.pending()
    await database.pool.query(`update oncekey.keys set due_at = now() + interval '1 hour', attempts = 7 where tenant = $1`, [keys.tenant])
    const { exitCode, data } = await oncekey('retry', ...keys.name, '--yes', '--json', '--by', 'bob', '--note', 'it is up again')
    expect(exitCode).toBe(0)
    expect(data).toMatchObject({ tenant: keys.tenant, was: 'pending', state: 'pending' })
    expect(await keys.row()).toMatchObject({
      state: 'pending',
      waiting: true,
      attempts: 0,
      due: true,
      reason: 'Error: the provider is down',
    })
    expect(await keys.trail()).toEqual([{ what: 'retried', detail: 'retried by bob: it is up again', fence: 2 }])
    expect((await keys.again()).kind).toBe('executed')
  })

  test('lets a parked key wait again if no outcome is in doubt, and keeps why it was parked', async () => {
    const keys = keysOf(database)
    await keys.parked()
    expect((await oncekey('retry', ...keys.name, '--yes')).exitCode).toBe(0)
    const row = await keys.row()
    expect(row).toMatchObject({ state: 'pending', waiting: true, due: true, fence: 3, answer_status: null })
    expect(row.reason).toMatch(/^retried by alice \(it was parked: .*'a'/)
    expect(await keys.trail()).toEqual([{ what: 'retried', detail: 'retried by alice', fence: 3 }])
  })

  test.each([
    ['a finished key', 'complete', /is complete: it has its answer/],
    ['a key in doubt', 'inDoubt', /whether 'charge_created' took effect\. Resolve it: oncekey resolve --tenant/],
    ['a key that is worked on', 'held', /is in progress/],
  ] as const)('refuses %s and changes nothing', async (_, make, message) => {
    const keys = keysOf(database)
    await keys[make]()
    const before = await keys.row()
    const { exitCode, err } = await oncekey('retry', ...keys.name, '--yes')
    expect(exitCode).toBe(3)
    expect(err).toMatch(message)
    expect(await keys.row()).toEqual(before)
    expect(await keys.trail()).toEqual([])
  })

  test('refuses a failed key', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    await oncekey('resolve', ...keys.name, '--failed', '--yes')
    const { exitCode, data } = await oncekey('retry', ...keys.name, '--yes', '--json')
    expect([exitCode, data.error.exitCode]).toEqual([3, 3])
    expect(data.error.message).toMatch(/is failed: .* never runs again/)
  })

  test('refuses a key whose author said that it must not simply run again', async () => {
    const keys = keysOf(database)
    await keys.held({ afterFailure: 'park' })
    await oncekey('sweep', '--yes')
    const { exitCode, err } = await oncekey('retry', ...keys.name, '--yes')
    expect(exitCode).toBe(3)
    expect(err).toMatch(/it is unknown whether it took effect/)
    expect(await keys.row()).toMatchObject({ state: 'parked' })
  })
})

describe('release', () => {
  test('takes a key from a holder that is gone, which cannot write any more', async () => {
    const keys = keysOf(database)
    const lease = await keys.held()
    const { exitCode, data } = await oncekey('release', ...keys.name, '--yes', '--json')
    expect(exitCode).toBe(0)
    expect(data).toMatchObject({ was: 'processing', state: 'pending', fence: 2 })
    expect(await keys.row()).toMatchObject({
      state: 'pending',
      waiting: true,
      due: true,
      fence: 2,
      locked_until: null,
      reason: 'released by alice',
    })
    expect(await keys.trail()).toEqual([{ what: 'released by hand', detail: 'released by alice', fence: 2 }])
    expect(await keys.store.keyRelease({ lease })).toBe('lost')
    expect(await keys.store.keyHeartbeat({ leases: [{ ...lease, leaseMs: 1_000 }] })).toEqual(['lost'])
  })

  test('refuses a live lease, and takes it by force', async () => {
    const keys = keysOf(database)
    const lease = await keys.held({ over: false })
    const { exitCode, err } = await oncekey('release', ...keys.name, '--yes')
    expect(exitCode).toBe(3)
    expect(err).toMatch(/its lease lasts another 10m|its lease lasts another 9m/)
    expect(await keys.row()).toMatchObject({ state: 'processing', fence: 1 })
    expect((await oncekey('release', ...keys.name, '--yes', '--force')).exitCode).toBe(0)
    expect(await keys.store.keyRelease({ lease })).toBe('lost')
  })

  test.each(['store', 'park'] as const)("refuses work of '%s', and runs it again by force", async (afterFailure) => {
    const keys = keysOf(database)
    await keys.held({ afterFailure })
    const { exitCode, err } = await oncekey('release', ...keys.name, '--yes', '--force')
    expect(exitCode).toBe(3)
    expect(err).toContain(`its author said '${afterFailure}'`)
    expect(await keys.row()).toMatchObject({ state: 'processing', fence: 1 })
    expect((await oncekey('release', ...keys.name, '--yes', '--force-rerun')).exitCode).toBe(0)
    expect(await keys.row()).toMatchObject({ state: 'pending', fence: 2 })
  })

  test.each(['complete', 'pending', 'inDoubt'] as const)('refuses a key that nobody holds: %s', async (make) => {
    const keys = keysOf(database)
    await keys[make]()
    const before = await keys.row()
    expect((await oncekey('release', ...keys.name, '--yes', '--force')).exitCode).toBe(3)
    expect(await keys.row()).toEqual(before)
  })
})

describe('resolve', () => {
  test('goes on with the result when the call happened, in the very words it was given', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    const result = '{"id":"ch_1","cents":12345678901234567890}'
    const { exitCode, data } = await oncekey('resolve', ...keys.name, '--happened', '--result', result, '--by', 'bob', '--yes', '--json')
    expect(exitCode).toBe(0)
    expect(data).toMatchObject({ was: 'parked', state: 'pending', resolvedAs: 'happened', step: 'charge_created' })
    const { rows } = await database.pool.query(`select result from oncekey.steps where tenant = $1 and name = 'charge_created'`, [
      keys.tenant,
    ])
    expect(rows).toEqual([{ result }])
    expect(await keys.trail()).toEqual([{ what: 'resolved', detail: 'resolved as happened by bob', fence: 2 }])
    const outcome = await keys.again()
    expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toMatchObject({ id: 'ch_1' })
  })

  test('makes the call when it did not happen', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    expect((await oncekey('resolve', ...keys.name, '--did-not-happen', '--note', 'asked them', '--yes')).exitCode).toBe(0)
    expect(await keys.trail()).toMatchObject([{ detail: 'resolved as did-not-happen by alice: asked them' }])
    const outcome = await keys.again()
    expect(outcome.kind === 'executed' && bodyOf(outcome.answer)).toEqual({ id: 'ch_new' })
  })

  test('answers every retry with the failure, for as long as the key would be kept', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    await keys.pass(3 * 86_400_000)
    const words = ['--failed', '--status', '502', '--body', '{"error":"refunded by hand"}', '--yes']
    expect((await oncekey('resolve', ...keys.name, ...words)).exitCode).toBe(0)
    const outcome = await keys.again()
    expect(outcome).toMatchObject({
      kind: 'replayed',
      state: 'failed',
      answer: { status: 502, headers: [['content-type', 'application/json']] },
    })
    const { rows } = await database.pool.query(
      `select extract(epoch from expires_at - clock_timestamp()) / 3600 as hours from oncekey.keys where tenant = $1`,
      [keys.tenant],
    )
    expect(Math.round(Number(rows[0].hours))).toBe(24)
  })

  test('has an answer of its own for a failure', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    await oncekey('resolve', ...keys.name, '--failed', '--yes')
    expect(await keys.again()).toMatchObject({ kind: 'replayed', answer: { status: 500 } })
    expect((await keys.row()).answer_body.toString()).toContain('work_failed')
  })

  test.each([
    ['no word', []],
    ['two words', ['--happened', '--failed']],
    ['a result of nothing', ['--did-not-happen', '--result', '1']],
    ['a status of nothing', ['--happened', '--status', '500']],
    ['a result that is not JSON', ['--happened', '--result', '{id: 1}']],
    ['a status that is none', ['--failed', '--status', '99']],
    ['a body where there is none', ['--failed', '--status', '204', '--body', '{}']],
  ])('is told what it cannot take: %s', async (_, words) => {
    const keys = keysOf(database)
    await keys.inDoubt()
    const { exitCode, err } = await oncekey('resolve', ...keys.name, ...words, '--yes')
    expect(exitCode).toBe(2)
    expect(err).not.toBe('')
    expect(await keys.row()).toMatchObject({ state: 'parked', fence: 1 })
  })

  test('refuses what is not parked, and "happened" where no call is in question', async () => {
    const keys = keysOf(database)
    await keys.complete()
    expect((await oncekey('resolve', ...keys.name, '--did-not-happen', '--yes')).exitCode).toBe(3)
    const other = keysOf(database)
    await other.parked()
    expect((await oncekey('resolve', ...other.name, '--happened', '--yes')).exitCode).toBe(3)
    expect(await other.row()).toMatchObject({ state: 'parked', fence: 2 })
  })
})

describe('every change', () => {
  const changes = [
    ['retry', 'pending', ['retry'], 1],
    ['release', 'held', ['release'], 1],
    ['resolve', 'inDoubt', ['resolve', '--did-not-happen'], 1],
  ] as const

  test.each(changes)('asks before it acts: %s', async (_, make, words) => {
    const keys = keysOf(database)
    await keys[make]()
    const before = await keys.row()
    const { oncekey: askedNo, questions } = person('n')
    const { exitCode, err } = await askedNo(...words, ...keys.name)
    expect([exitCode, err]).toEqual([3, 'Nothing was changed.\n'])
    expect(questions).toHaveLength(1)
    expect(await keys.row()).toEqual(before)
    expect((await person('y').oncekey(...words, ...keys.name)).exitCode).toBe(0)
    expect(await keys.row()).toMatchObject({ state: 'pending', fence: before.fence + 1 })
  })

  test.each(changes)('never waits for an answer that nobody can give: %s', async (_, make, words) => {
    const keys = keysOf(database)
    await keys[make]()
    const before = await keys.row()
    const { exitCode, err } = await oncekey(...words, ...keys.name)
    expect(exitCode).toBe(2)
    expect(err).toContain('pass --yes')
    expect(await keys.row()).toEqual(before)
  })

  test.each(changes)('changes nothing if the key changed since it was shown: %s', async (_, make, words) => {
    const keys = keysOf(database)
    await keys[make]()
    // Somebody else decides while the question stands, and the key comes to look the same as before.
    const { oncekey: late } = person('y', () =>
      database.pool.query('update oncekey.keys set fence = fence + 1 where tenant = $1', [keys.tenant]),
    )
    const before = await keys.row()
    const { exitCode, err } = await late(...words, ...keys.name)
    expect(exitCode).toBe(3)
    expect(err).toContain('has changed since it was shown')
    expect(await keys.row()).toMatchObject({ state: before.state, fence: before.fence + 1 })
    expect(await keys.trail()).toEqual([])
  })

  test.each(changes)('changes nothing in another life of the key: %s', async (_, make, words) => {
    const keys = keysOf(database)
    await keys[make]()
    const { oncekey: late } = person('y', () =>
      database.pool.query('update oncekey.keys set incarnation = gen_random_uuid() where tenant = $1', [keys.tenant]),
    )
    expect((await late(...words, ...keys.name)).exitCode).toBe(3)
    expect(await keys.trail()).toEqual([])
  })

  test('leaves the key to a holder whose heartbeat comes in while the question stands', async () => {
    const keys = keysOf(database)
    const lease = await keys.held()
    const { oncekey: late } = person('y', () => keys.store.keyHeartbeat({ leases: [{ ...lease, leaseMs: 600_000 }] }))
    expect((await late('release', ...keys.name)).exitCode).toBe(3)
    expect(await keys.row()).toMatchObject({ state: 'processing', fence: 1 })
  })

  test('is done by one of ten people', async () => {
    for (const [, make, words] of changes) {
      const keys = keysOf(database)
      await keys[make]()
      const ended = await Promise.all(Array.from({ length: 10 }, () => oncekey(...words, ...keys.name, '--yes')))
      // Those who looked after the change find a key that waits, which `retry` may make due once more.
      const done = ended.filter(({ exitCode }) => exitCode === 0).length
      expect(await keys.trail()).toHaveLength(done)
      if (words[0] !== 'retry') expect(done).toBe(1)
      expect(ended.every(({ exitCode }) => exitCode === 0 || exitCode === 3)).toBe(true)
    }
  })
})
