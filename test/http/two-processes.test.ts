import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { isReplay, type Seen } from './seen.js'
import type { StartSettings } from './server-process.js'
import { useServers } from './servers.js'

const database = useDatabase()
const setup = useServers(database)

const body = '{"amount":100}'

/** What an answer is about, in a word. */
const inAWord = (answer: Seen) => (isReplay(answer) ? `${answer.status} replayed` : `${answer.status}`)

const effectsOf = { '/handler': ['handled'], '/orders': ['finished', 'ordered'] }
const paths = ['/handler', '/orders'] as const

/** How many come at once: one after the other on the same two servers. */
const counts = [2, 10, 100]

describe.each(paths)('two processes that serve %s', (path) => {
  async function twoServers(settings: StartSettings) {
    const bundle = await setup()
    const servers = await Promise.all([bundle.start(settings), bundle.start(settings)])

    /** As many requests with a new key, alternately to the one and the other, while the gate is shut. */
    async function race(count: number) {
      const key = crypto.randomUUID()
      await bundle.closeGate()
      let answered = 0
      const answers = Array.from({ length: count }, async (_, index) => {
        const answer = await servers[index % 2]?.send({ path, key, body })
        answered += 1
        if (!answer) throw new Error('there are two servers')
        return answer
      })
      return { key, answers, answered: () => answered }
    }
    return { ...bundle, servers, race }
  }

  test(`C1 ${counts} at once: one run, the rest 409 with Retry-After, no 500`, async () => {
    const { race, openGate, effects } = await twoServers({ whenInProgress: 'conflict' })
    for (const count of counts) {
      const { key, answers, answered } = await race(count)
      await waitUntil(`all but one of ${count} are answered`, () => answered() === count - 1)
      await openGate()
      const all = await Promise.all(answers)
      expect(all.map(inAWord).sort()).toEqual(['201', ...Array.from({ length: count - 1 }, () => '409')])
      for (const { status, header } of all) if (status === 409) expect(Number(header('retry-after'))).toBeGreaterThanOrEqual(1)
      expect((await effects(key)).map(({ what }) => what)).toEqual(effectsOf[path])
    }
  })

  test(`C1 ${counts} at once with 'accepted': one run, the rest 202 with Retry-After, no 500`, async () => {
    const { race, openGate, effects, servers } = await twoServers({ whenInProgress: 'accepted' })
    for (const count of counts) {
      const { key, answers, answered } = await race(count)
      await waitUntil(`all but one of ${count} are answered`, () => answered() === count - 1)
      await openGate()
      const all = await Promise.all(answers)
      expect(all.map(inAWord).sort()).toEqual(['201', ...Array.from({ length: count - 1 }, () => '202')])
      for (const { status, header } of all) if (status === 202) expect(Number(header('retry-after'))).toBeGreaterThanOrEqual(1)
      expect((await effects(key)).map(({ what }) => what)).toEqual(effectsOf[path])
      const later = await Promise.all(servers.map(({ send }) => send({ path, key, body })))
      expect(later.map(inAWord)).toEqual(['201 replayed', '201 replayed'])
    }
  })

  test(`C1 ${counts} at once with 'wait': one run, and the rest replay its bytes once it has ended, no 500`, async () => {
    const { race, openGate, effects, servers, keyState } = await twoServers({ whenInProgress: 'wait' })
    let waited = 0
    for (const count of counts) {
      const { key, answers, answered } = await race(count)
      waited += count - 1
      await waitUntil(`all but one of ${count} were told to wait`, async () => {
        const met = await Promise.all(servers.map((server) => server.met()))
        return met.reduce((sum, each) => sum + each) === waited
      })
      // Nobody has anything while the one who works stands at the gate.
      expect({ answered: answered(), state: await keyState(key) }).toEqual({ answered: 0, state: 'processing' })
      await openGate()
      const all = await Promise.all(answers)
      expect(all.map(inAWord).sort()).toEqual(['201', ...Array.from({ length: count - 1 }, () => '201 replayed')])
      expect(new Set(all.map(({ text }) => text)).size).toBe(1)
      expect((await effects(key)).map(({ what }) => what)).toEqual(effectsOf[path])
    }
  })

  test("'wait': one who waits in the other process gets the owner's bytes", async () => {
    const { start, closeGate, atGate, openGate, effects } = await setup()
    const [owner, other] = await Promise.all([start({ whenInProgress: 'wait' }), start({ whenInProgress: 'wait' })])
    const key = crypto.randomUUID()
    await closeGate()
    const first = owner.send({ path, key, body })
    await atGate(1)
    const waiting = other.send({ path, key, body })
    await waitUntil('the other was told to wait', async () => (await other.met()) === 1)
    await openGate()
    const [own, replay] = await Promise.all([first, waiting])
    expect(own.json.by).toBe(owner.pid)
    expect(replay.bytes).toEqual(own.bytes)
    expect([own, replay].map(isReplay)).toEqual([false, true])
    expect((await effects(key)).map(({ pid }) => pid)).toEqual(effectsOf[path].map(() => owner.pid))
  })

  test("'wait': one who waits in the other process is answered within 50 ms of the owner's answer, as a rule", async () => {
    const { start, closeGate, atGate, openGate } = await setup()
    const [owner, other] = await Promise.all([start({ whenInProgress: 'wait' }), start({ whenInProgress: 'wait' })])
    const behindMs: number[] = []
    for (let round = 1; round <= 9; round += 1) {
      const key = crypto.randomUUID()
      const answeredAt = (answer: Promise<Seen>) => answer.then(() => performance.now())
      await closeGate()
      const first = answeredAt(owner.send({ path, key, body }))
      await atGate(1)
      const waiting = answeredAt(other.send({ path, key, body }))
      await waitUntil('the other was told to wait', async () => (await other.met()) === round)
      await openGate()
      behindMs.push((await waiting) - (await first))
    }
    // Not each of them: the machine may be busy with other tests.
    expect(behindMs.sort((a, b) => a - b)[4]).toBeLessThan(50)
  })
})
