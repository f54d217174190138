// Bytes that no well-behaved client sends, from a plain socket, against every stack.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ChargesService, type ServiceOptions, stacks, startCharges } from './charges-service.js'
import { type ClientAnswer, expectRefusal, expectSameKey, type KeyLine, refused, sameKey, twoLines } from './key-rows.js'
import { chunkedPost, openRaw, post, type RawConnection, type RawResponse } from './raw-connection.js'

const database = useDatabase()

const keyLine = (key: string) => `Idempotency-Key: "${key}"`

async function charge({ port }: ChargesService, lines: readonly KeyLine[]): Promise<ClientAnswer> {
  const connection = await openRaw(port)
  connection.send(post(lines.map(([name, value]) => `${name}: ${value}`)))
  const { status, headers, body } = await connection.response()
  return { status, header: (name) => headers.get(name)?.[0], body }
}

/** What matters of a response, in one line. */
function told({ status, headers, body }: RawResponse) {
  const json = body === '' ? {} : (JSON.parse(body) as { run?: number; code?: string })
  return [status, json.code ?? json.run, headers.has('idempotent-replayed') ? 'replay' : 'first']
}

const firstRun = [201, 1, 'first']
const replay = [201, 1, 'replay']

async function ask(connection: RawConnection, request: string) {
  connection.send(request)
  return told(await connection.response())
}

describe.each(stacks)('%s', (stack) => {
  async function setup(options: Omit<ServiceOptions, 'stack'> = {}) {
    const service = await startCharges(database.pool, { stack, ...options })
    return { service, connection: await openRaw(service.port), key: randomUUID() }
  }

  describe('the header', () => {
    test.each(sameKey)('one key: %s', async (_, lines) => {
      const { service } = await setup()
      await expectSameKey(service, charge, lines)
    })

    test.each<[string, (key: string) => KeyLine[]]>([
      ['space in front', (key) => [['Idempotency-Key', `     "${key}"`]]],
      ['space behind', (key) => [['Idempotency-Key', `"${key}"     `]]],
      ['TABs around', (key) => [['Idempotency-Key', `\t "${key}" \t`]]],
    ])('one key: %s', async (_, lines) => {
      const { service } = await setup()
      await expectSameKey(service, charge, lines)
    })

    test.each([
      ...refused,
      ...twoLines,
      ['bytes of UTF-8', (key: string): KeyLine[] => [['Idempotency-Key', `"${key}\xc3\xa9"`]]] as const,
      ['bytes that are no text', (key: string): KeyLine[] => [['Idempotency-Key', `"${key}\x80\xff"`]]] as const,
      ['white space and no more', (): KeyLine[] => [['Idempotency-Key', ' \t ']]] as const,
    ])('refused: %s', async (_, lines) => {
      const { service } = await setup()
      await expectRefusal(service, charge, lines)
    })

    test.each([
      ['a folded line', (key: string) => `Idempotency-Key: "${key}\r\n x"`],
      ['a value on the next line', (key: string) => `Idempotency-Key:\r\n "${key}"`],
      ['DEL', (key: string) => `Idempotency-Key: "${key}\x7f"`],
      ['NUL', (key: string) => `Idempotency-Key: "${key}\0"`],
      ['a bare CR', (key: string) => `Idempotency-Key: "${key}\rx"`],
      ['space before the colon', (key: string) => `Idempotency-Key : "${key}"`],
    ])('Node refuses %s before we see it: nothing runs', async (_, line) => {
      const { service, connection, key } = await setup()
      connection.send(post([line(key)]))
      expect((await connection.response()).status).toBe(400)
      expect(service.runs()).toBe(0)
    })

    test('Node refuses a header over its limit: nothing runs', async () => {
      const { service, connection, key } = await setup()
      connection.send(post([keyLine(key.padEnd(20_000, 'x'))]))
      expect((await connection.response()).status).toBe(431)
      expect(service.runs()).toBe(0)
    })

    test.each([
      ['DEL', (key: string) => `Idempotency-Key: "${key}\x7f"`],
      ['a control character', (key: string) => `Idempotency-Key: "${key}\x01"`],
    ])('a server that takes %s leaves it to us: refused', async (_, line) => {
      const { service, connection, key } = await setup({ insecureHTTPParser: true })
      expect(await ask(connection, post([line(key)]))).toEqual([400, 'key_invalid', 'first'])
      expect(service.runs()).toBe(0)
    })

    test('the connection goes on after a refusal', async () => {
      const { service, connection, key } = await setup()
      expect(await ask(connection, post([keyLine(key), keyLine(key)]))).toEqual([400, 'key_invalid', 'first'])
      expect(await ask(connection, post([keyLine(key)]))).toEqual(firstRun)
      expect(await ask(connection, post(['Idempotency-Key: "']))).toEqual([400, 'key_invalid', 'first'])
      expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
      expect(service.runs()).toBe(1)
    })
  })

  describe('the body', () => {
    test('in pieces it is the same request as in one', async () => {
      const { service, connection, key } = await setup()
      expect(await ask(connection, chunkedPost([keyLine(key)], ['{"am', 'ount"', ':100}']))).toEqual(firstRun)
      expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
      expect(await ask(connection, chunkedPost([keyLine(key)], ['{"amount":', '101}']))).toEqual([422, 'key_reused', 'first'])
      expect(await ask(connection, chunkedPost([keyLine(key)], ['{"amount":100}']))).toEqual(replay)
      expect(service.runs()).toBe(1)
    })

    test('pieces that arrive one by one are waited for', async () => {
      const { service, connection, key } = await setup()
      const whole = chunkedPost([keyLine(key)], ['{"amount"', ':1', '00}'])
      for (const byte of whole) connection.send(byte)
      expect(told(await connection.response())).toEqual(firstRun)
      expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
      expect(service.runs()).toBe(1)
    })

    test('Expect: 100-continue is answered before the body comes', async () => {
      const { service, connection, key } = await setup()
      for (const expected of [firstRun, replay]) {
        const [head = '', body = ''] = post([keyLine(key), 'Expect: 100-continue']).split('\r\n\r\n')
        connection.send(`${head}\r\n\r\n`)
        expect((await connection.response()).status).toBe(100)
        expect(await ask(connection, body)).toEqual(expected)
      }
      expect(await ask(connection, post([keyLine(key)]))).toEqual(replay)
      expect(service.runs()).toBe(1)
    })

    test.each([
      ['with its length', (lines: string[], body: string) => post(lines, body)],
      ['in pieces', (lines: string[], body: string) => chunkedPost(lines, [body.slice(0, 700), body.slice(700)])],
    ])('over the limit, %s: 413, nothing runs, and the connection goes on', async (_, request) => {
      const { service, connection, key } = await setup({ http: { maxBodyBytes: 1_000 } })
      const large = JSON.stringify({ amount: 100, note: 'x'.repeat(100_000) })
      expect(await ask(connection, request([keyLine(key)], large))).toEqual([413, 'body_too_large', 'first'])
      expect(service.runs()).toBe(0)
      expect(await ask(connection, post([keyLine(key)]))).toEqual(firstRun)
    })

    test('announced as over the limit: 413 before it comes', async () => {
      const { service, connection, key } = await setup({ http: { maxBodyBytes: 1_000 } })
      const [head = ''] = post([keyLine(key)], 'x'.repeat(100_000)).split('\r\n\r\n')
      expect(await ask(connection, `${head}\r\n\r\n`)).toEqual([413, 'body_too_large', 'first'])
      expect(service.runs()).toBe(0)
    })

    test.each([
      ['shorter than its length', (lines: string[]) => post(lines).slice(0, -5)],
      ['without its last piece', (lines: string[]) => chunkedPost(lines, ['{"amount":', '100}'], { end: false })],
      ['not there at all', (lines: string[]) => post(lines).split('{')[0] as string],
    ])('%s, and the client goes: nothing runs, nothing is known', async (_, request) => {
      for (const leave of ['hangUp', 'halfClose'] as const) {
        const { service, connection, key } = await setup()
        connection.send(request([keyLine(key)]))
        await waitUntil('the server has the connection', () => service.connections() > 0)
        connection[leave]()
        await waitUntil('the server has noticed', () => service.connections() === 0)
        const { rows } = await database.pool.query('select 1 from oncekey.keys where key = $1', [key])
        expect([service.runs(), rows.length]).toEqual([0, 0])
        expect(await ask(await openRaw(service.port), post([keyLine(key)]))).toEqual(firstRun)
      }
    })

    test('a client that stops in the middle of it holds no key', async () => {
      const { service, connection, key } = await setup()
      connection.send(post([keyLine(key)]).slice(0, -5))
      const other = await openRaw(service.port)
      expect(await ask(other, post([keyLine(key)]))).toEqual(firstRun)
      // It comes to its senses, and is a retry by now.
      expect(await ask(connection, ':100}'.slice(-5))).toEqual(replay)
      expect(service.runs()).toBe(1)
    })
  })

  describe('a client that goes', () => {
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
      const { service, connection, key } = await setup()
      service.work.shut()
      connection.send(post([keyLine(key)]))
      await service.work.untilWaiting()
      const blocker = await database.pool.connect()
      await blocker.query('begin')
      await blocker.query('select 1 from oncekey.keys where key = $1 for update', [key])
      service.work.open()
      await waitUntil('the answer waits for the row', async () => {
        const blocked = "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        return (await database.pool.query(blocked)).rows.length > 0
      })
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
      await waitUntil('the server is alone', () => service.connections() <= 1)
      await service.untilNothingIsHeld()
      expect([firstRun, replay]).toContainEqual(await ask(await openRaw(service.port), post([keyLine(key)])))
      expect(service.runs()).toBe(1)
    })
  })

  describe('requests in one segment', () => {
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

  test('a client that goes in the middle of an answer too large to keep: the work ends, and a retry is told so', async () => {
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
