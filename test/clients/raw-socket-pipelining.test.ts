// Requests that follow one another without waiting for an answer, against every stack.
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { stacks } from './charges-service.js'
import { ask, firstRun, keyLine, rawSetup, replay, told } from './raw-charges.js'
import { openRaw, post, type RawConnection, type RawResponse } from './raw-connection.js'

const database = useDatabase()

describe.each(stacks)('requests in one segment, %s', (stack) => {
  const setup = rawSetup(database.pool, stack)
  const three = (key: string) => post([keyLine(key)]).repeat(3)
  const responses = async (connection: RawConnection, count: number) => {
    const all: RawResponse[] = []
    while (all.length < count) all.push(await connection.response())
    return all
  }

  // They are under way at the same time, so any of them may be the one that runs; the answers come in the order of the requests.
  const conflict = [409, 'key_in_use', 'first']
  const sorted = (all: readonly RawResponse[]) => all.map(told).sort((a, b) => String(a).localeCompare(String(b)))

  test.each([2, 3])('%d with one key: one runs, the others are replays or told to come back', async (count) => {
    const { service, connection, key } = await setup()
    connection.send(post([keyLine(key)]).repeat(count))
    const all = await responses(connection, count)
    expect(all.map(told).filter((one) => String(one) === String(firstRun))).toHaveLength(1)
    for (const response of all) {
      expect([firstRun, replay, conflict]).toContainEqual(told(response))
      if (response.status === 409) expect(Number(response.headers.get('retry-after')?.[0])).toBeGreaterThanOrEqual(1)
    }
    expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test('conflict: while one runs, the others are told to come back', async () => {
    const { service, connection, key } = await setup()
    service.work.shut()
    connection.send(three(key))
    await waitUntil('two have met the first', () => service.seen('met-in-progress') === 2)
    service.work.open()
    expect(sorted(await responses(connection, 3))).toEqual([firstRun, conflict, conflict])
    expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test('wait: the others get the answer of the one that runs', async () => {
    const { service, connection, key } = await setup({ http: { whenInProgress: 'wait' } })
    service.work.shut()
    connection.send(three(key))
    await service.work.untilWaiting()
    service.work.open()
    const all = await responses(connection, 3)
    expect(sorted(all)).toEqual([firstRun, replay, replay])
    expect(new Set(all.map(({ body }) => body)).size).toBe(1)
    expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test('other keys and other methods between them keep their places', async () => {
    const { service, connection, key } = await setup({ http: { whenInProgress: 'wait' } })
    const get = 'GET /charges HTTP/1.1\r\nHost: localhost\r\n\r\n'
    const amounts = [1, 2, 3, 4].map((amount) => JSON.stringify({ amount }))
    const [one = '', two = '', , four = ''] = amounts
    const segment = [post([keyLine(key)], one), post([keyLine(`${key}-2`)], two), get, post([keyLine(`${key}-4`)], four)]
    connection.send(segment.join(''))
    const all = await responses(connection, 4)
    const bodies = all.map(({ body }) => (JSON.parse(body) as { body: string }).body)
    expect(all.map(({ status }) => status)).toEqual([201, 201, 201, 201])
    expect(bodies).toEqual(stack === 'node:http, body unread' ? Array(4).fill('unread') : [one, two, '', four])
    expect(service.runs()).toBe(4)
  })

  test('the client goes while they are under way: one run, nothing is held', async () => {
    const { service, connection, key } = await setup({ http: { whenInProgress: 'wait' } })
    service.work.shut()
    connection.send(three(key))
    await service.work.untilWaiting()
    connection.hangUp()
    await waitUntil('the server has noticed', () => service.connections() === 0)
    service.work.open()
    await waitUntil('the work is done', () => service.seen('finished') === 1)
    await service.untilNothingIsHeld()
    expect(await ask(await openRaw(service.port), post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test('the first one ends the connection: what follows never runs, and nothing is held', async () => {
    const { service, connection, key } = await setup()
    connection.send(post([keyLine(key), 'Connection: close']) + post([keyLine(`${key}-2`)]))
    await connection.untilClosed()
    await waitUntil('the work is done', () => service.seen('finished') === 1)
    await service.untilNothingIsHeld()
    const retry = await openRaw(service.port)
    expect(await ask(retry, post([keyLine(key)]))).toEqual(replay)
    expect(await ask(retry, post([keyLine(`${key}-2`)]))).toEqual([201, 2, 'first'])
  })

  test('the answer to the first one ends the connection: the other answer is lost, and a retry gets it', async () => {
    const { service, connection, key } = await setup({ answer: (response) => response.setHeader('connection', 'close') })
    connection.send(post([keyLine(key)]) + post([keyLine(`${key}-2`)]))
    expect((await connection.response()).status).toBe(201)
    await connection.untilClosed()
    await waitUntil('both are done', () => service.seen('finished') === 2)
    for (const sent of [key, `${key}-2`]) {
      const [status, , kind] = await ask(await openRaw(service.port), post([keyLine(sent)]))
      expect([status, kind]).toEqual([201, 'replay'])
    }
    expect(service.runs()).toBe(2)
  })

  test('HTTP/1.0 without keep-alive', async () => {
    const { service, connection, key } = await setup()
    connection.send(post([keyLine(key)]).replace('HTTP/1.1', 'HTTP/1.0'))
    expect(told(await connection.response())).toEqual(firstRun)
    await connection.untilClosed()
    expect(await ask(await openRaw(service.port), post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })
})
