// Clients that go before they have their answer, at every moment, against every stack.
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test, vi } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { connectionTo } from '../support/postgres/connection.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { stacks } from './charges-service.js'
import { ask, firstRun, inUse, keyLine, rawSetup, replay, told } from './raw-charges.js'
import { openRaw, post } from './raw-connection.js'

const database = useDatabase()

describe.each(stacks)('a client of %s that goes', (stack) => {
  const setup = rawSetup(database.pool, stack)

  test.each(['hangUp', 'halfClose'] as const)('before the key is claimed (%s): the work is done, a retry replays', async (leave) => {
    const { service, connection, key } = await setup()
    service.beforeClaim.shut()
    connection.send(post([keyLine(key)]))
    await service.beforeClaim.untilWaiting()
    connection[leave]()
    await waitUntil('the server has noticed', () => service.connections() === 0)
    service.beforeClaim.open()
    await waitUntil('the work is done', () => service.seen('finished') === 1)
    expect(await ask(await openRaw(service.port), post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test.each(['hangUp', 'halfClose'] as const)(
    'while the work goes on (%s): it is done, with its body, and a retry replays',
    async (leave) => {
      const { service, connection, key } = await setup()
      service.work.shut()
      connection.send(post([keyLine(key)]))
      await service.work.untilWaiting()
      connection[leave]()
      await waitUntil('the server has noticed', () => service.connections() === 0)
      service.work.open()
      await waitUntil('the work is done', () => service.seen('finished') === 1)
      const retry = await openRaw(service.port)
      retry.send(post([keyLine(key)]))
      const response = await retry.response()
      expect(told(response)).toEqual(replay)
      const { body } = JSON.parse(response.body) as { body: string }
      expect(body).toBe(stack === 'node:http, body unread' ? 'unread' : '{"amount":100}')
      expect(service.runs()).toBe(1)
    },
  )

  test('while its answer is being stored: a retry replays', async () => {
    const store = postgresStore(connectionTo(database.pool))
    const keyFinish = vi.fn(store.keyFinish)
    const { service, connection, key } = await setup({ once: { store: { ...store, keyFinish } } })
    service.work.shut()
    connection.send(post([keyLine(key)]))
    await service.work.untilWaiting()
    const blocker = await database.pool.connect()
    await blocker.query('begin')
    await blocker.query('select 1 from oncekey.keys where key = $1 for update', [key])
    service.work.open()
    await waitUntil('the answer is on its way to the row', () => keyFinish.mock.calls.length > 0)
    connection.hangUp()
    await waitUntil('the server has noticed', () => service.connections() === 0)
    await blocker.query('rollback')
    blocker.release()
    await waitUntil('the work is done', () => service.seen('finished') === 1)
    expect(await ask(await openRaw(service.port), post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test('after its answer has left: a retry replays', async () => {
    const { service, connection, key } = await setup()
    connection.send(post([keyLine(key)]))
    await waitUntil('the work is done', () => service.seen('finished') === 1)
    connection.hangUp()
    expect(await ask(await openRaw(service.port), post([keyLine(key)]))).toEqual(replay)
    expect(service.runs()).toBe(1)
  })

  test('whatever became of it: a request that is sent and not waited for runs once at most', async () => {
    const { service, key } = await setup()
    for (let times = 0; times < 5; times += 1) {
      const connection = await openRaw(service.port)
      connection.send(post([keyLine(key)]))
      connection.hangUp()
    }
    // A request may be claimed after its client hung up, so an honest client retries while the key is in use.
    let told: unknown
    await waitUntil('a retry has an answer', async () => {
      told = await ask(await openRaw(service.port), post([keyLine(key)]))
      return !isDeepStrictEqual(told, inUse)
    })
    expect([firstRun, replay]).toContainEqual(told)
    expect(service.runs()).toBe(1)
  })

  test('in the middle of an answer too large to keep: the work ends, and a retry is told so', async () => {
    let stuck = false
    const { service, connection, key } = await setup({
      once: { maxAnswerBytes: 1_024 },
      answer: (response) => {
        // More than all buffers on the way hold.
        let left = 1_024
        const piece = Buffer.alloc(64 * 1024, 'x')
        const goOn = () => {
          while (left > 0) {
            left -= 1
            if (!response.write(piece)) {
              stuck = response.writableLength > piece.length
              return void response.once('drain', goOn)
            }
          }
          response.end('the end')
        }
        goOn()
      },
    })
    connection.stopReading()
    connection.send(post([keyLine(key)]))
    await waitUntil('the answer is stuck', () => stuck)
    connection.hangUp()
    await service.untilNothingIsHeld()
    const retry = await openRaw(service.port)
    expect(await ask(retry, post([keyLine(key)]))).toEqual([410, 'answer_not_kept', 'replay'])
    expect(service.runs()).toBe(1)
  })
})
