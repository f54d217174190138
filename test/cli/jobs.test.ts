import { describe, expect, test } from 'vitest'
import type { JobFunction } from '../../src/outbox/index.js'
import { nothing, setup as outbox, type Staged } from '../outbox/setup.js'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'

const database = useDatabase()
const oncekey = commandLine(database.url)
const gone = { error: new Error('410: they want no more'), final: true }

/** An outbox of its own with these jobs, after a relay has tried each of them once. */
async function setup({ jobs = [{}], work = () => gone }: { jobs?: Staged[]; work?: JobFunction } = {}) {
  const service = await outbox(database)
  const { tenant } = service
  await service.stage(...jobs)
  await service.newRelay({ work, backoff: { first: '1h' } }).runOnce()
  const { rows } = await database.pool.query('select id, payload from oncekey.jobs where tenant = $1', [tenant])
  return {
    ...service,
    idOf: (payload: unknown) => rows.find((row) => row.payload === JSON.stringify(payload))?.id as string,
    id: rows[0]?.id as string,
    /** Delivers whatever is due. */
    deliver: () => service.newRelay().runOnce(),
    async row(id: string = rows[0]?.id) {
      return (await database.pool.query('select * from oncekey.jobs where tenant = $1 and id = $2', [tenant, id])).rows[0]
    },
    async trail() {
      const { rows: notes } = await database.pool.query(
        `select what, detail, fence from oncekey.audit where tenant = $1 and what like 'job %' order by at`,
        [tenant],
      )
      return notes as { what: string; detail: string; fence: number }[]
    },
  }
}

function person(answer: string, meanwhile: () => Promise<unknown> = async () => {}) {
  const questions: string[] = []
  const ask = async (question: string) => {
    questions.push(question)
    await meanwhile()
    return answer
  }
  return { oncekey: commandLine(database.url, { ask }), questions }
}

/** One job in each state. */
const everyState = async () => {
  const service = await setup({
    jobs: ['waiting', 'held', 'delayed', 'failed', 'dead'].map((payload) => ({
      name: `send_${payload}`,
      payload,
      ...(payload === 'delayed' ? { options: { delay: '2h' } } : payload === 'waiting' ? { options: { delay: '1h' } } : {}),
    })),
    work: ({ payload }) => (payload === 'dead' ? gone : { error: new Error('503: down'), retryAfterMs: 7_200_000 }),
  })
  const set = (change: string, payload: string) =>
    database.pool.query(`update oncekey.jobs set ${change} where id = $1`, [service.idOf(payload)])
  await set(`due_at = clock_timestamp() - interval '5 minutes', staged_at = clock_timestamp() - interval '5 minutes'`, 'waiting')
  await set(`due_at = clock_timestamp(), locked_until = clock_timestamp() + interval '1 minute', token = gen_random_uuid()`, 'held')
  return service
}

describe('the list', () => {
  test('has each job in one state, the oldest first, with age, attempts and last error', async () => {
    const { tenant, idOf } = await everyState()
    const { exitCode, data } = await oncekey('jobs', '--json')
    expect([exitCode, data.count]).toEqual([0, 5])
    const states = Object.fromEntries(data.jobs.map(({ id, state }: { id: string; state: string }) => [id, state]))
    expect(states).toEqual({
      [idOf('waiting')]: 'waiting',
      [idOf('held')]: 'held',
      [idOf('delayed')]: 'delayed',
      [idOf('failed')]: 'delayed',
      [idOf('dead')]: 'dead',
    })
    expect(data.jobs[0]).toMatchObject({ id: idOf('waiting'), tenant, name: 'send_waiting', attempts: 0, error: null, group: null })
    expect(Math.round(data.jobs[0].ageMs / 60_000)).toBe(5)
    for (const state of ['waiting', 'held', 'delayed', 'dead']) {
      const { data: some } = await oncekey('jobs', 'list', '--state', state, '--json')
      expect(some.jobs.every((job: { state: string }) => job.state === state)).toBe(true)
      expect(some.count).toBe(state === 'delayed' ? 2 : 1)
    }
    const { out } = await oncekey('jobs')
    expect(out).toMatch(/^STATE +AGE +TRIES +ID +TENANT +NAME +GROUP +LAST ERROR$/m)
    expect(out).toMatch(new RegExp(`^waiting +5m +0 +${idOf('waiting')} +${tenant} +send_waiting +-$`, 'm'))
    expect(out).toMatch(new RegExp(`^dead .* 1 +${idOf('dead')} .* 410: they want no more$`, 'm'))
  })

  test('is narrowed by tenant, name, group and age, and says how many there are in all', async () => {
    const service = await setup({
      jobs: [{ name: 'a', options: { group: 'g' } }, { name: 'b', options: { group: 'h' } }, { name: 'b' }],
    })
    const count = async (...words: string[]) => (await oncekey('jobs', ...words, '--json')).data.count
    expect(await count('--name', 'b')).toBe(2)
    expect(await count('--name', 'b', '--group', 'h')).toBe(1)
    expect(await count('--tenant', service.tenant)).toBe(3)
    expect(await count('--tenant', 'nobody')).toBe(0)
    await database.pool.query(`update oncekey.jobs set staged_at = staged_at - interval '1 hour' where name = 'a'`)
    expect(await count('--older-than', '50m')).toBe(1)
    const { out } = await oncekey('jobs', '--limit', '2')
    expect(out).toContain('(the first 2 of 3: --limit shows more)')
    expect((await oncekey('jobs', '--tenant', 'nobody')).out).toBe('No such jobs.\n')
  })

  test('knows the jobs of a process from before there was a relay', async () => {
    await setup({ jobs: [] })
    await database.pool.query(
      `insert into oncekey.jobs select 't', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'mail', '{}', clock_timestamp()`,
    )
    expect((await oncekey('jobs', '--json')).data.jobs).toMatchObject([{ state: 'waiting', dueAt: null }])
  })
})

describe('show', () => {
  const three = [1, 2, 3].map((payload) => ({ payload, options: { group: 'order-7' } }))

  test('tells of a dead job, of the key that staged it, of its group, and what to do', async () => {
    const { tenant, idOf } = await setup({ jobs: three, work: ({ payload }) => (payload === 1 ? gone : undefined) })
    const { exitCode, out } = await oncekey('jobs', 'show', idOf(1))
    expect(exitCode).toBe(0)
    expect(out).toMatch(/^job +mail {2}dead$/m)
    expect(out).toMatch(new RegExp(`^of +tenant ${tenant}, scope stage, key .{36}$`, 'm'))
    expect(out).toMatch(/^attempts +1, dead for \d+ ms$|^attempts +1, dead for .* s$/m)
    expect(out).toMatch(/^group +order-7: 0 before it, 2 behind it, 0 others dead$/m)
    expect(out).toMatch(/^error +410: they want no more$/m)
    expect(out).toContain(`oncekey jobs retry --tenant ${tenant} ${idOf(1)}\n`)
    expect(out).toContain('2 jobs of its group may wait for it.')
    const behind = await oncekey('jobs', 'show', '--tenant', tenant, idOf(3))
    expect(behind.out).toMatch(/^group +order-7: 1 before it, 0 behind it, 1 other dead$/m)
    expect(behind.out).toContain('oncekey jobs --state dead --group order-7')
  })

  test.each([
    ['waiting', /check that a relay with a sink for send_waiting runs/],
    ['held', /a relay has it for another .* at most/],
    ['delayed', /attempts +0, due in/],
    ['failed', /attempts +1, due in [\s\S]*503: down/],
  ])('says where a job stands: %s', async (payload, words) => {
    const { idOf } = await everyState()
    expect((await oncekey('jobs', 'show', idOf(payload))).out).toMatch(words)
  })

  test('prints the payload when it is asked for, and no character of it moves the cursor', async () => {
    const { id } = await setup({ jobs: [{ payload: { to: '\u202e\x7f' } }] })
    expect((await oncekey('jobs', 'show', id)).out).not.toContain('"to"')
    expect((await oncekey('jobs', 'show', id, '--payload')).out).toMatch(/\n\n\{"to":"\\u202e\\u007f"\}\n$/)
    expect((await oncekey('jobs', 'show', id, '--json')).data.payload.text).toBeUndefined()
    expect((await oncekey('jobs', 'show', id, '--json', '--payload')).data.payload).toMatchObject({ text: '{"to":"\\u202e\x7f"}' })
  })

  test('opens no payload that is sealed', async () => {
    const { id } = await setup()
    await database.pool.query(`update oncekey.jobs set payload = 'oncekey-sealed AAAA key of may' where id = $1`, [id])
    const { out } = await oncekey('jobs', 'show', id, '--payload')
    expect(out).toContain('sealed with the encryption key key of may')
    expect(out).toContain('only a process with the encryption keys')
    expect(out).not.toContain('AAAA')
  })

  test.each([
    ['no-uuid', 2, 'is not the id of a job'],
    ['00000000-0000-4000-8000-000000000000', 4, 'There is no job'],
  ])('knows no job %s', async (id, code, words) => {
    const { exitCode, err } = await oncekey('jobs', 'show', id)
    expect([exitCode, err]).toEqual([code, expect.stringContaining(words)])
  })
})

describe('retry', () => {
  test('lets a dead job be delivered at its old place, with all its attempts, and notes who did it', async () => {
    const jobs = [1, 2].map((payload) => ({ payload, options: { group: 'g' } }))
    const { idOf, tenant, row, trail, deliver, payloads } = await setup({ jobs })
    const words = ['retry', idOf(1), '--yes', '--by', 'bob', '--note', 'it is up again']
    const { exitCode, data } = await oncekey('jobs', ...words, '--json')
    expect([exitCode, data]).toEqual([0, { id: idOf(1), tenant, was: 'dead', state: 'waiting' }])
    expect(await row(idOf(1))).toMatchObject({ dead_at: null, attempts: 0, last_error: '410: they want no more' })
    expect(await trail()).toEqual([{ what: 'job retried', detail: `mail ${idOf(1)}, retried by bob: it is up again`, fence: 1 }])
    expect(await deliver()).toEqual({ ...nothing, delivered: 2 })
    expect(payloads()).toEqual([1, 2])
  })

  test.each(['waiting', 'held', 'delayed', 'failed'])('refuses a job that was not given up: %s', async (payload) => {
    const { idOf, row, trail } = await everyState()
    const before = await row(idOf(payload))
    for (const word of ['retry', 'discard']) {
      const { exitCode, err } = await oncekey('jobs', word, idOf(payload), '--yes')
      expect([exitCode, err]).toEqual([3, expect.stringContaining('Nothing was changed.')])
    }
    expect(await row(idOf(payload))).toEqual(before)
    expect(await trail()).toEqual([])
  })
})

describe('discard', () => {
  test('deletes a dead job, lets its group go on, and notes it where the key that staged it is shown', async () => {
    const jobs = [1, 2].map((payload) => ({ payload, options: { group: 'g' } }))
    const { idOf, tenant, row, trail, deliver, payloads } = await setup({ jobs })
    const { exitCode, data } = await oncekey('jobs', 'discard', idOf(1), '--yes', '--json')
    expect([exitCode, data]).toEqual([0, { id: idOf(1), tenant, was: 'dead', state: 'discarded' }])
    expect(await row(idOf(1))).toBeUndefined()
    expect(await trail()).toEqual([{ what: 'job discarded', detail: `mail ${idOf(1)}, discarded by alice`, fence: 1 }])
    await deliver()
    expect(payloads()).toEqual([2])
    const { rows } = await database.pool.query('select key from oncekey.keys where tenant = $1', [tenant])
    const story = await oncekey('show', rows[0].key, '--tenant', tenant, '--json')
    expect(story.data.timeline.map(({ what }: { what: string }) => what)).toEqual(['claimed', 'complete', 'job discarded'])
  })

  test('is noted even if the key that staged it is forgotten', async () => {
    const { id, tenant, trail } = await setup()
    await database.pool.query('delete from oncekey.keys where tenant = $1', [tenant])
    expect((await oncekey('jobs', 'show', id)).out).toMatch(/^of +tenant .*, key forgotten$/m)
    expect((await oncekey('jobs', 'discard', id, '--yes')).exitCode).toBe(0)
    expect(await trail()).toMatchObject([{ what: 'job discarded', fence: 0 }])
  })
})

describe.each(['retry', 'discard'])('%s of many', (word) => {
  const jobs = ['mail', 'mail', 'mail', 'ledger'].map((name) => ({ name }))

  test('takes the dead jobs of a name, as many as it is told, and says how many are left', async () => {
    const { rows, trail } = await setup({ jobs })
    const first = await oncekey('jobs', word, '--all', '--name', 'mail', '--limit', '2', '--yes', '--json')
    expect([first.exitCode, first.data]).toEqual([0, { done: 2, changed: 0, left: 1 }])
    expect((await rows()).filter(({ dead_at }) => dead_at !== null).map(({ name }) => name)).toEqual(['mail', 'ledger'])
    expect(await trail()).toHaveLength(2)
    const { out } = await oncekey('jobs', word, '--all', '--name', 'mail', '--yes')
    expect(out).toMatch(/^1 job is /)
    expect(await oncekey('jobs', word, '--all', '--name', 'mail')).toMatchObject({
      exitCode: 0,
      out: expect.stringMatching(/^0 jobs are /),
    })
  })

  test('asks with the count, and takes no job that was given up while the question stood', async () => {
    const { rows, trail } = await setup({ jobs })
    const again = `update oncekey.jobs set dead_at = clock_timestamp() where id = (select id from oncekey.jobs where name = 'mail' limit 1)`
    const { oncekey: asked, questions } = person('y', () => database.pool.query(again))
    const { exitCode, out } = await asked('jobs', word, '--all', '--name', 'mail')
    expect([exitCode, questions]).toEqual([0, [expect.stringMatching(/^3 dead jobs named mail\. .*\? \[y\/N\] $/)]])
    expect(out).toMatch(/^2 jobs are .*\n1 had changed since they were counted, and were skipped\.\n$/)
    expect((await rows()).filter(({ dead_at }) => dead_at !== null)).toHaveLength(2)
    expect(await trail()).toHaveLength(2)
  })

  test("leaves other tenants' jobs alone if one is named", async () => {
    const { rows } = await setup({ jobs })
    expect((await oncekey('jobs', word, '--all', '--name', 'mail', '--tenant', 'other', '--yes', '--json')).data).toMatchObject({ done: 0 })
    expect(await rows()).toHaveLength(4)
  })

  test.each([[[]], [['--all']], [['--name', 'mail']], [['00000000-0000-4000-8000-000000000000', '--all', '--name', 'mail']]])(
    'needs an id, or --all and a name: %j',
    async (words) => {
      expect((await oncekey('jobs', word, ...words, '--yes')).exitCode).toBe(2)
    },
  )
})

describe.each(['retry', 'discard'])('a change: %s', (word) => {
  test('asks before it acts, and never waits for an answer that nobody can give', async () => {
    const { id, row } = await setup()
    const before = await row()
    const { oncekey: askedNo, questions } = person('n')
    expect((await askedNo('jobs', word, id)).exitCode).toBe(3)
    expect(questions).toEqual([expect.stringContaining('is dead (410: they want no more).')])
    expect(await oncekey('jobs', word, id)).toMatchObject({ exitCode: 2, err: expect.stringContaining('pass --yes') })
    expect(await row()).toEqual(before)
    expect((await person('y').oncekey('jobs', word, id)).exitCode).toBe(0)
  })

  test('changes nothing if the job was retried and given up again since it was shown', async () => {
    const { id, row, trail } = await setup()
    const { oncekey: late } = person('y', () =>
      database.pool.query(`update oncekey.jobs set dead_at = dead_at + interval '1 millisecond' where id = $1`, [id]),
    )
    const { exitCode, err } = await late('jobs', word, id)
    expect([exitCode, err]).toEqual([3, expect.stringContaining('has changed since it was shown')])
    expect(await row()).toMatchObject({ attempts: 1, dead_at: expect.any(Date) })
    expect(await trail()).toEqual([])
  })

  test('is done by one of ten people', async () => {
    const { id, trail } = await setup()
    const ended = await Promise.all(Array.from({ length: 10 }, () => oncekey('jobs', word, id, '--yes')))
    expect(ended.filter(({ exitCode }) => exitCode === 0)).toHaveLength(1)
    expect(ended.every(({ exitCode }) => [0, 3, 4].includes(exitCode))).toBe(true)
    expect(await trail()).toHaveLength(1)
  })
})

test('a subcommand that is not there is wrong usage', async () => {
  expect(await oncekey('jobs', 'retyr', 'x')).toMatchObject({ exitCode: 2, out: '' })
  expect((await oncekey('jobs', '--help')).out).toContain('Usage: oncekey jobs')
  expect((await oncekey('jobs', 'retry', '--help')).out).toContain('Usage: oncekey jobs retry [options] [id]')
})
