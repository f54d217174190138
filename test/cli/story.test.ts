import { describe, expect, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import { ordersService, ordersTable } from '../phases/orders.js'
import { startChild } from '../support/child.js'
import { useDatabase } from '../support/postgres/database.js'
import { commandLine } from './command-line.js'
import { keysOf } from './keys.js'

const database = useDatabase()
const oncekey = commandLine(database.url)

/** An order whose process is really killed, twice, the second time right after the charge; then it may go through. */
async function crashedTwice({ id, audit, finish }: { id: string; audit: boolean; finish: boolean }) {
  await database.ensure(ordersTable)
  const provider = await startChild('phases/provider.ts', { honoursKeys: true }).message<string>()
  // After the commit of the first phase; after the charge.
  for (const crashPoint of [7, 3]) {
    const child = startChild('phases/doomed-order.ts', { url: database.url, provider, whenUnknown: 'resend', id, crashPoint, audit })
    await expect(child.message()).rejects.toThrow('SIGKILL')
    await database.pool.query(`update oncekey.keys set locked_until = clock_timestamp() where key = $1 and state = 'processing'`, [id])
  }
  expect(await (await fetch(`${provider}?order=${id}`)).json()).toHaveLength(1)
  if (!finish) return
  const { createOrder } = ordersService(database.pool, provider, 'resend', { audit })
  expect((await createOrder.run({ tenant: 't', key: id, input: { id } })).kind).toBe('executed')
}

describe('a key that crashed twice', () => {
  test('tells its whole story on one screen', async () => {
    await crashedTwice({ id: 'twice', audit: true, finish: true })
    const { exitCode, out } = await oncekey('show', 'twice')
    const lines = out.trimEnd().split('\n')
    expect(exitCode).toBe(0)
    expect(lines.length).toBeLessThanOrEqual(24)
    expect(lines.filter((line) => line.length > 80)).toEqual([])
    expect(out).toMatch(/^key +twice +complete$/m)
    expect(out).toMatch(/^attempts +3, fence 3, after a failure: rerun$/m)
    const told = lines.slice(lines.findIndex((line) => line.startsWith('TIME')) + 1).map((line) => line.slice(14).trim())
    expect(told.slice(0, told.indexOf(''))).toEqual([
      expect.stringMatching(/^1 +claimed$/),
      expect.stringMatching(/^\+.* +1 +phase order_created: {"id":"twice"}$/),
      expect.stringMatching(/^1 +stopped without a word$/),
      expect.stringMatching(/^\+.* +2 +taken over$/),
      expect.stringMatching(/^2 +stopped without a word$/),
      expect.stringMatching(/^\+.* +3 +taken over$/),
      expect.stringMatching(/^\+.* +3 +call charge_created: {"id":"ch_1"/),
      expect.stringMatching(/^\+.* +3 +complete$/),
    ])
    expect(out).toMatch(/^jobs +1 job not delivered: send_receipt$/m)
    expect(out).toMatch(/^answer +201, 2 headers, 30 B: {"id":"twice","charge":"ch_1"}$/m)
    expect(out).toMatch(/^next +Nothing to do: retries get this answer until .*Z\.$/m)
  })

  test('tells what can be known where no trail is kept', async () => {
    await crashedTwice({ id: 'untraced', audit: false, finish: false })
    const { out } = await oncekey('show', 'untraced')
    const lines = out.trimEnd().split('\n')
    expect(lines.length).toBeLessThanOrEqual(24)
    expect(lines.filter((line) => line.length > 80)).toEqual([])
    expect(out).toMatch(/^key +untraced +processing, but its lease is over$/m)
    expect(out).toMatch(/1 +claimed$/m)
    expect(out).toMatch(/1 +phase order_created/)
    expect(out).toMatch(/1 +ended unfinished$/m)
    expect(out).toMatch(/2 +lease ran out$/m)
    expect(out).toContain('no trail is kept')
    expect(out).toMatch(/^ +oncekey release --tenant t --scope orders.create untraced$/m)
  })

  test('tells the same as data', async () => {
    await crashedTwice({ id: 'data', audit: true, finish: true })
    const { data } = await oncekey('show', 'data', '--json')
    expect(data).toMatchObject({
      attempts: 3,
      trailKept: true,
      key: { state: 'complete', fence: 3 },
      answer: { status: 201, sealedWith: null },
    })
    expect(data.timeline.map(({ what }: { what: string }) => what)).toEqual([
      'claimed',
      'phase',
      'stopped without a word',
      'taken-over',
      'stopped without a word',
      'taken-over',
      'call',
      'complete',
    ])
    for (const { at } of data.steps) expect(new Date(at).toISOString()).toBe(at)
    expect(data.answer.bodyBase64).toBeUndefined()
  })
})

describe('show', () => {
  test('says what to do about a key in doubt, and that works', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    const { out } = await oncekey('show', ...keys.name)
    expect(out).toContain("Find out whether 'charge_created' took effect")
    const [, command = ''] = /^ +oncekey (resolve .*)\n +--happened --result JSON \| --did-not-happen \| --failed$/m.exec(out) ?? []
    expect((await oncekey(...command.split(' '), '--did-not-happen', '--yes')).exitCode).toBe(0)
    expect(await keys.row()).toMatchObject({ state: 'pending' })
  })

  test('tells what people did, with or without a trail', async () => {
    const keys = keysOf(database)
    await keys.inDoubt()
    await oncekey('resolve', ...keys.name, '--happened', '--result', '{"id":"ch_1"}', '--yes')
    await oncekey('retry', ...keys.name, '--yes')
    await keys.again()
    const { data } = await oncekey('show', ...keys.name, '--json')
    expect(data.attempts).toBe(2)
    expect(data.timeline.map(({ attempt, what }: { attempt: number | null; what: string }) => `${attempt} ${what}`)).toEqual([
      '1 claimed',
      '1 phase',
      '1 ended unfinished',
      'null resolved',
      'null call',
      'null retried',
      '2 complete',
    ])
  })

  test('prints the whole answer when asked', async () => {
    const keys = keysOf(database)
    await keys.complete()
    expect((await oncekey('show', ...keys.name)).out).not.toContain('location: /orders/1')
    expect((await oncekey('show', ...keys.name, '--answer')).out).toContain(
      '\n201\nlocation: /orders/1\ncontent-type: application/json\n\n{"id":1}\n',
    )
    const { data } = await oncekey('show', ...keys.name, '--answer', '--json')
    expect(Buffer.from(data.answer.bodyBase64, 'base64').toString()).toBe('{"id":1}')
  })

  test('says that an answer is sealed, and does not show its bytes', async () => {
    const encryption = { keys: [{ id: 'k1', key: Buffer.alloc(32, 1) }] }
    const once = createOnce({ store: postgresStore(fromPg(database.pool)), encryption })
    await once.execute({ tenant: 't', scope: 's', key: 'sealed', fingerprint: false, afterFailure: 'rerun' }, () =>
      reply(200, { secret: 1 }),
    )
    const { out } = await oncekey('show', 'sealed', '--answer')
    expect(out).toMatch(/^answer +200, sealed with the encryption key k1, /m)
    expect(out).toContain('only a process with the encryption keys can open it')
    expect((await oncekey('show', 'sealed', '--json')).data.answer).toMatchObject({ status: 200, sealedWith: 'k1' })
  })

  test('shows nothing that could take over a terminal', async () => {
    const once = createOnce({ store: postgresStore(fromPg(database.pool)) })
    const key = 'evil\x1b[2J\x9b31m\u202egpj'
    await once.execute({ tenant: 't\x07', scope: 's', key, fingerprint: false, afterFailure: 'rerun' }, () => reply(200, { text: '\x7f' }))
    for (const words of [
      ['show', key, '--answer'],
      ['list', '--tenant', 't\x07'],
      ['show', key, '--json', '--answer'],
    ]) {
      const { out, exitCode } = await oncekey(...words)
      expect(exitCode).toBe(0)
      expect(out).toContain('evil')
      expect(out).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]/)
    }
  })
})

describe('a key is named', () => {
  test('by its key alone, by id, or by all of its parts', async () => {
    const keys = keysOf(database)
    await keys.complete()
    const { id } = await keys.row()
    const [, tenant = '', , scope = ''] = keys.name
    for (const words of [keys.name, ['--id', id], ['--id', id, '--tenant', tenant], ['k', '--tenant', tenant]]) {
      expect((await oncekey('show', ...words, '--json')).data.key).toMatchObject({ id, tenant, scope, key: 'k' })
    }
  })

  test('not well enough if several match: they are listed', async () => {
    const [first, second] = [keysOf(database), keysOf(database)]
    await first.complete()
    await second.complete()
    const { exitCode, err } = await oncekey('show', 'k')
    expect(exitCode).toBe(4)
    expect(err).toContain(`--tenant ${first.tenant} --scope orders.create k`)
    expect(err).toContain(`--tenant ${second.tenant} --scope orders.create k`)
  })

  test('not at all: exit code 4', async () => {
    for (const words of [['nobody'], ['--tenant', 't', '--scope', 's', 'nobody'], ['--id', crypto.randomUUID()]]) {
      const { exitCode, data } = await oncekey('show', ...words, '--json')
      expect([exitCode, data.error.exitCode]).toEqual([4, 4])
    }
  })

  test('by nothing, or by what is no id: exit code 2', async () => {
    for (const words of [[], ['k', '--id', crypto.randomUUID()], ['--id', 'x']]) {
      expect((await oncekey('show', ...words)).exitCode).toBe(2)
    }
  })
})

describe('list', () => {
  test('shows keys by state, tenant, scope and age', async () => {
    const keys = keysOf(database)
    await keys.held()
    const states = async (...words: string[]) => {
      const { data, exitCode } = await oncekey('list', '--tenant', keys.tenant, '--json', ...words)
      expect(exitCode).toBe(0)
      return data.keys.map(({ state }: { state: string }) => state)
    }
    expect(await states()).toEqual(['processing'])
    expect(await states('--state', 'stuck')).toEqual(['processing'])
    expect(await states('--state', 'overdue')).toEqual([])
    expect(await states('--scope', 'another')).toEqual([])
    expect(await states('--older-than', '10m')).toEqual(['processing'])
    expect(await states('--older-than', '1h')).toEqual([])
    await oncekey('release', ...keys.name, '--yes')
    expect(await states('--state', 'stuck')).toEqual([])
    expect(await states('--state', 'overdue', '--oldest', '--limit', '1')).toEqual(['pending'])
    const { out } = await oncekey('list', '--tenant', keys.tenant)
    expect(out).toMatch(
      /^STATE +CREATED +FENCE +TENANT +SCOPE +KEY +REASON\npending +.*Z +2 +tenant-.* +orders.create +k +released by alice\n$/,
    )
  })

  test('says that there are none, and refuses a state that is none', async () => {
    expect((await oncekey('list', '--tenant', 'nobody')).out).toBe('No such keys.\n')
    const { exitCode, err } = await oncekey('list', '--state', 'lost')
    expect([exitCode, err]).toEqual([2, expect.stringContaining('Allowed choices are pending')])
  })
})
