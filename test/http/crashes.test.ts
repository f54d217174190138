import { connect } from 'node:net'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { open } from './client.js'
import { isReplay, problemOf } from './seen.js'
import { useServers } from './servers.js'
import { leaseMs } from './setup.js'

const database = useDatabase()
const setup = useServers(database)

const body = '{"amount":100}'
const lease = leaseMs

/** The client's side of a server that dies: it hears nothing. */
const unheard = (answer: Promise<unknown>) => expect(answer).rejects.toThrow(/socket hang up|ECONNRESET/)

describe('an operation whose process is killed', () => {
  const path = '/orders'

  test.each([
    ['in its first phase, before the commit', 'phase ordered:written', []],
    ['after its first phase', 'phase ordered:committed', ['ordered']],
    ['in its finish, before the commit', 'finish:written', ['ordered']],
  ])('D1 %s: after the lease a retry completes it, with one effect', async (_, dieAt, left) => {
    const { start, advance, effects } = await setup()
    const [victim, other] = await Promise.all([start({ dieAt, lease }), start({ lease })])
    const key = crypto.randomUUID()
    await unheard(victim.send({ path, key, body }))
    expect((await effects(key)).map(({ what }) => what)).toEqual(left)
    expect((await other.send({ path, key, body })).status).toBe(409)
    await advance(lease)
    const retry = await other.send({ path, key, body })
    expect({ status: retry.status, json: retry.json }).toEqual({ status: 201, json: { by: other.pid, attempt: 2 } })
    expect(await effects(key)).toEqual([
      { what: 'finished', pid: other.pid },
      { what: 'ordered', pid: left.length > 0 ? victim.pid : other.pid },
    ])
    expect(isReplay(await other.send({ path, key, body }))).toBe(true)
  })

  test('D1 with kill -9 while its finish is open: after the lease a retry completes it, with one effect', async () => {
    const { start, advance, effects, closeGate, atGate, openGate } = await setup()
    const [victim, other] = await Promise.all([start({ lease }), start({ lease })])
    const key = crypto.randomUUID()
    await closeGate()
    const first = unheard(victim.send({ path, key, body }))
    await atGate(1)
    victim.signal('SIGKILL')
    await first
    await openGate()
    await advance(lease)
    expect((await other.send({ path, key, body })).json).toEqual({ by: other.pid, attempt: 2 })
    expect(await effects(key)).toEqual([
      { what: 'finished', pid: other.pid },
      { what: 'ordered', pid: victim.pid },
    ])
  })

  test('D2 after the commit, before the answer went out: a replay', async () => {
    const { start, effects } = await setup()
    const [victim, other] = await Promise.all([start({ dieAt: 'finish:committed', lease }), start({ lease })])
    const key = crypto.randomUUID()
    await unheard(victim.send({ path, key, body }))
    const retry = await other.send({ path, key, body })
    expect({ status: retry.status, json: retry.json, marked: isReplay(retry) }).toEqual({
      status: 201,
      json: { by: victim.pid, attempt: 1 },
      marked: true,
    })
    expect((await effects(key)).map(({ pid }) => pid)).toEqual([victim.pid, victim.pid])
  })
})

describe('an operation whose process is frozen', () => {
  test('D4 past its lease: it cannot commit, it cannot overwrite, and its client is told to ask again', async () => {
    const path = '/orders'
    const { start, advance, effects, closeGate, atGate, openGate } = await setup()
    const [zombie, other] = await Promise.all([start({ lease }), start({ lease })])
    const key = crypto.randomUUID()
    await closeGate()
    const first = zombie.send({ path, key, body })
    await atGate(1)
    zombie.signal('SIGSTOP')
    await openGate()
    await advance(lease)
    const second = await other.send({ path, key, body })
    expect(second.json).toEqual({ by: other.pid, attempt: 2 })
    zombie.signal('SIGCONT')
    const late = await first
    expect(problemOf(late)).toEqual({ status: 503, code: 'interrupted' })
    expect(Number(late.header('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(await effects(key)).toEqual([
      { what: 'finished', pid: other.pid },
      { what: 'ordered', pid: zombie.pid },
    ])
    const retries = await Promise.all([zombie, other].map(({ send }) => send({ path, key, body })))
    for (const retry of retries) expect(retry.bytes).toEqual(second.bytes)
    expect(retries.map(isReplay)).toEqual([true, true])
  })
})

const path = '/handler'

describe.each([
  ['rerun', { status: 201, marked: false, runs: 2 }],
  ['store', { status: 500, marked: true, runs: 1 }],
  ['park', { status: 500, marked: false, runs: 1 }],
] as const)("an opaque handler with afterFailure: '%s'", (afterFailure, next) => {
  async function twoServers() {
    const bundle = await setup()
    const settings = { afterFailure, lease }
    const [victim, other] = await Promise.all([bundle.start(settings), bundle.start(settings)])
    const key = crypto.randomUUID()
    await bundle.closeGate()
    const first = victim.send({ path, key, body })
    await bundle.atGate(1)
    /** What the other process says once the lease is over. */
    const retryAfterLease = async () => {
      await bundle.openGate()
      await bundle.advance(lease)
      const retry = await other.send({ path, key, body })
      expect({ status: retry.status, marked: isReplay(retry) }).toEqual({ status: next.status, marked: next.marked })
      if (next.status === 500) expect(problemOf(retry).code).toBe('outcome_unknown')
      else expect(retry.json).toEqual({ by: other.pid })
      return retry
    }
    return { ...bundle, victim, other, key, first, retryAfterLease }
  }

  test('D6 is killed: 409 while the lease holds, then as it says', async () => {
    const { victim, other, key, first, retryAfterLease, effects } = await twoServers()
    const gone = unheard(first)
    victim.signal('SIGKILL')
    await gone
    expect((await other.send({ path, key, body })).status).toBe(409)
    await retryAfterLease()
    expect(await effects(key)).toHaveLength(next.runs)
    const again = await other.send({ path, key, body })
    expect({ status: again.status, marked: isReplay(again) }).toEqual({ status: next.status, marked: afterFailure !== 'park' })
    expect(await effects(key)).toHaveLength(next.runs)
  })

  test('D4, D6 is frozen past its lease and wakes: it cannot overwrite, and its client is told to ask again', async () => {
    const { victim, other, key, first, retryAfterLease, effects } = await twoServers()
    victim.signal('SIGSTOP')
    const retry = await retryAfterLease()
    victim.signal('SIGCONT')
    expect(problemOf(await first)).toEqual({ status: 503, code: 'interrupted' })
    for (const { send } of [victim, other]) expect((await send({ path, key, body })).bytes).toEqual(retry.bytes)
    expect(await effects(key)).toHaveLength(next.runs)
  })

  test('D2, R6 is killed after its answer was stored, before its last byte left: a replay', async () => {
    const { start, effects } = await setup()
    const [victim, other] = await Promise.all([start({ afterFailure, lease, dieAt: 'finish:after' }), start({ afterFailure, lease })])
    const key = crypto.randomUUID()
    await unheard(victim.send({ path, key, body }))
    const retry = await other.send({ path, key, body })
    expect({ status: retry.status, json: retry.json, marked: isReplay(retry) }).toEqual({
      status: 201,
      json: { by: victim.pid },
      marked: true,
    })
    expect(await effects(key)).toHaveLength(1)
  })
})

describe.each([
  ['/handler', 1],
  ['/orders', 2],
] as const)('the client of %s is gone', (target, effectsOfOne) => {
  test('D3 half-way: the work goes on, the answer is stored, and a retry replays', async () => {
    const { start, closeGate, atGate, openGate, effects, untilState } = await setup()
    const server = await start({ lease })
    const key = crypto.randomUUID()
    await closeGate()
    const request = open(server.port, { path: target, key, body })
    request.on('error', () => {})
    await atGate(1)
    request.destroy()
    await server.aloneWithUs()
    await openGate()
    await untilState(key, 'complete')
    const retry = await server.send({ path: target, key, body })
    expect({ status: retry.status, marked: isReplay(retry), by: retry.json.by }).toEqual({ status: 201, marked: true, by: server.pid })
    expect(await effects(key)).toHaveLength(effectsOfOne)
  })

  test('D3 before its request was whole: nothing runs, and the same key is free', async () => {
    const { start, effects, keyState } = await setup()
    const server = await start({ lease })
    const key = crypto.randomUUID()
    const socket = connect(server.port, '127.0.0.1')
    socket.write(`POST ${target} HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n`)
    socket.write(`Idempotency-Key: ${key}\r\n\r\n{"amount"`)
    await server.begun(1)
    socket.destroy()
    await server.aloneWithUs()
    expect({ state: await keyState(key), effects: await effects(key) }).toEqual({ state: undefined, effects: [] })
    expect((await server.send({ path: target, key, body })).status).toBe(201)
    expect(await effects(key)).toHaveLength(effectsOfOne)
  })
})
