// Bytes that no well-behaved client sends, from a plain socket, against every stack.
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ChargesService, stacks } from './charges-service.js'
import { type ClientAnswer, expectRefusal, expectSameKey, type KeyLine, refused, sameKey, twoLines } from './key-rows.js'
import { ask, firstRun, keyLine, rawSetup, replay, told } from './raw-charges.js'
import { chunkedPost, openRaw, post } from './raw-connection.js'

const database = useDatabase()

async function charge({ port }: ChargesService, lines: readonly KeyLine[]): Promise<ClientAnswer> {
  const connection = await openRaw(port)
  connection.send(post(lines.map(([name, value]) => `${name}: ${value}`)))
  const { status, headers, body } = await connection.response()
  return { status, header: (name) => headers.get(name)?.[0], body }
}

describe.each(stacks)('%s', (stack) => {
  const setup = rawSetup(database.pool, stack)

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
})
