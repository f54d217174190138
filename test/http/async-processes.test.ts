import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { isReplay } from './seen.js'
import type { ServerProcess } from './server-process.js'
import { useServers } from './servers.js'
import { leaseMs as lease } from './setup.js'

const database = useDatabase()
const setup = useServers(database)

const path = '/accepted'
const body = '{"amount":100}'

const work = (server: ServerProcess, key: string) => server.send({ path: '/work', key })
const look = (server: ServerProcess, location: string | undefined) => server.send({ method: 'GET', path: location ?? '' })

async function rowsOf(key: string) {
  return (await database.pool.query('select state, fence, async from oncekey.keys where key = $1', [key])).rows
}

async function twoServers(settings: { dieAt?: string } = {}) {
  const bundle = await setup()
  const [one, other] = await Promise.all([bundle.start({ lease, ...settings }), bundle.start({ lease })])
  return { ...bundle, one, other, key: crypto.randomUUID() }
}

describe('two processes that accept requests', () => {
  test('C1 100 at once with one key: one row, the same 202 for all, and workers of both run it once', async () => {
    const { one, other, key, effects } = await twoServers()
    const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => (n % 2 ? one : other).send({ path, key, body })))
    expect(new Set(answers.map(({ status, text, header }) => `${status} ${header('location')} ${text}`)).size).toBe(1)
    expect(answers[0]?.json).toMatchObject({ state: 'pending' })
    expect([answers[0]?.status, await rowsOf(key), await effects(key)]).toEqual([202, [{ state: 'pending', fence: 0, async: true }], []])

    const workers = await Promise.all(Array.from({ length: 20 }, (_, n) => work(n % 2 ? one : other, key)))
    expect(workers.filter(({ text }) => text === 'executed')).toHaveLength(1)
    expect((await effects(key)).map(({ what }) => what)).toEqual(['finished', 'ordered'])
    const location = answers[0]?.header('location')
    const told = await Promise.all([
      look(one, location),
      look(other, location),
      one.send({ path, key, body }),
      other.send({ path, key, body }),
    ])
    expect(told.map((answer) => [answer.status, isReplay(answer), answer.text])).toEqual(told.map(() => [201, true, told[0]?.text]))
    expect(told[0]?.json.attempt).toBe(1)
  })

  test('C1 requests and workers all at once: one row, one run, and nobody gets a 500', async () => {
    const { one, other, key, effects } = await twoServers()
    const location = (await one.send({ path, key, body })).header('location')
    const all = await Promise.all(
      Array.from({ length: 60 }, (_, n) => {
        const server = n % 2 ? one : other
        if (n % 3 === 0) return work(server, key)
        return n % 3 === 1 ? server.send({ path, key, body }) : look(server, location)
      }),
    )
    expect(all.filter(({ status }) => status >= 400)).toEqual([])
    expect(all.filter(({ text }) => text === 'executed')).toHaveLength(1)
    expect((await effects(key)).map(({ what }) => what)).toEqual(['finished', 'ordered'])
    expect(await rowsOf(key)).toEqual([{ state: 'complete', fence: 1, async: true }])
  })

  test('what one process accepted, the other one carries out, and both tell its answer', async () => {
    const { one, other, key, effects } = await twoServers()
    const location = (await one.send({ path, key, body })).header('location')
    expect((await work(other, key)).text).toBe('executed')
    expect((await effects(key)).map(({ pid }) => pid)).toEqual([other.pid, other.pid])
    expect([(await look(one, location)).json.by, (await look(other, location)).json.by]).toEqual([other.pid, other.pid])
  })
})

describe('a process that is killed', () => {
  const unheard = (answer: Promise<unknown>) => expect(answer).rejects.toThrow(/socket hang up|ECONNRESET/)

  test('before it has kept the request: a retry is accepted', async () => {
    const { one, other, key } = await twoServers({ dieAt: 'enqueue:before' })
    await unheard(one.send({ path, key, body }))
    expect(await rowsOf(key)).toEqual([])
    expect((await other.send({ path, key, body })).status).toBe(202)
  })

  test('D2 after it has kept the request, before the 202 went out: a retry gets it, and there is one operation', async () => {
    const { one, other, key, effects } = await twoServers({ dieAt: 'enqueue:after' })
    await unheard(one.send({ path, key, body }))
    const retry = await other.send({ path, key, body })
    expect([retry.status, retry.json.state, (await rowsOf(key)).length]).toEqual([202, 'pending', 1])
    await work(other, key)
    expect([(await look(other, retry.header('location'))).status, (await effects(key)).length]).toEqual([201, 2])
  })

  test.each([
    ['before its first phase is committed', 'phase ordered:written', []],
    ['after its first phase', 'phase ordered:committed', ['ordered']],
    ['in its finish, before the commit', 'finish:written', ['ordered']],
  ])(
    'D1 while it works, %s: it is still processing, and after the lease another worker finishes it, with one effect',
    async (_, dieAt, left) => {
      const { one, other, key, effects, advance } = await twoServers({ dieAt })
      const location = (await one.send({ path, key, body })).header('location')
      await unheard(work(one, key))
      expect((await effects(key)).map(({ what }) => what)).toEqual(left)
      const during = await look(other, location)
      expect([during.status, during.json.state, during.json.attempt]).toEqual([200, 'processing', 1])
      expect((await work(other, key)).text).toBe('in-progress')
      await advance(lease)
      const after = await look(other, location)
      expect([after.status, after.json.state, (await other.send({ path, key, body })).status]).toEqual([200, 'processing', 202])
      expect((await work(other, key)).text).toBe('executed')
      expect((await look(other, location)).json).toEqual({ by: other.pid, attempt: 2 })
      expect((await effects(key)).map(({ what }) => what)).toEqual(['finished', 'ordered'])
    },
  )

  test('D2 after the answer was stored: the status resource has it', async () => {
    const { one, other, key, effects } = await twoServers({ dieAt: 'finish:committed' })
    const location = (await one.send({ path, key, body })).header('location')
    await unheard(work(one, key))
    expect((await look(other, location)).json).toEqual({ by: one.pid, attempt: 1 })
    expect((await effects(key)).length).toBe(2)
  })

  test('D4 a worker that was frozen past its lease cannot overwrite the answer of the one that took over', async () => {
    const { one, other, key, effects, advance, closeGate, atGate, openGate } = await twoServers()
    const location = (await one.send({ path, key, body })).header('location')
    await closeGate()
    const zombie = work(one, key)
    await atGate(1)
    one.signal('SIGSTOP')
    await openGate()
    await advance(lease)
    expect((await work(other, key)).text).toBe('executed')
    one.signal('SIGCONT')
    expect((await zombie).status).toBe(500)
    expect((await look(one, location)).json).toEqual({ by: other.pid, attempt: 2 })
    expect(await effects(key)).toEqual([
      { what: 'finished', pid: other.pid },
      { what: 'ordered', pid: one.pid },
    ])
  })
})
