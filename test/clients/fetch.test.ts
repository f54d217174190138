// What `fetch` makes of the header, against every stack.
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { type ChargesService, stacks, startCharges } from './charges-service.js'
import { type ClientAnswer, expectRefusal, expectSameKey, type KeyLine, refused, sameKey, twoLines } from './key-rows.js'

const database = useDatabase()

async function charge({ url }: ChargesService, lines: readonly KeyLine[], amount = 100): Promise<ClientAnswer> {
  const headers = new Headers({ 'content-type': 'application/json' })
  for (const [name, value] of lines) headers.append(name, value)
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ amount }) })
  return { status: response.status, header: (name) => response.headers.get(name) ?? undefined, body: await response.text() }
}

describe.each(stacks)('%s', (stack) => {
  const setup = () => startCharges(database.pool, { stack })

  test.each(sameKey)('one key: %s', async (_, lines) => {
    await expectSameKey(await setup(), charge, lines)
  })

  test.each([...refused, ...twoLines])('refused: %s', async (_, lines) => {
    await expectRefusal(await setup(), charge, lines)
  })

  test('ten at once run once, and each gets an answer', async () => {
    const service = await setup()
    const lines: KeyLine[] = [['Idempotency-Key', randomUUID()]]
    service.work.shut()
    const all = Array.from({ length: 10 }, () => charge(service, lines))
    await waitUntil('nine were told to wait', () => service.seen('met-in-progress') === 9)
    service.work.open()
    const statuses = (await Promise.all(all)).map(({ status }) => status).sort()
    expect(statuses).toEqual([201, ...Array.from({ length: 9 }, () => 409)])
    expect(service.runs()).toBe(1)
  })

  test('another body with the same key is refused, and the first answer stays', async () => {
    const service = await setup()
    const lines: KeyLine[] = [['Idempotency-Key', randomUUID()]]
    const first = await charge(service, lines)
    const other = await charge(service, lines, 999)
    expect([other.status, JSON.parse(other.body)]).toEqual([422, expect.objectContaining({ code: 'key_reused', part: 'body' })])
    expect((await charge(service, lines)).body).toBe(first.body)
    expect(service.runs()).toBe(1)
  })
})
