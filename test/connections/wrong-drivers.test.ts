// What a newcomer passes by mistake is found out at once, and the error says what belongs there.
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { createOnce } from '../../src/index.js'
import * as postgres from '../../src/stores/postgres/index.js'

type AnyFunction = (...given: unknown[]) => unknown

const pool = new pg.Pool({ connectionString: 'postgres://localhost:1/nobody' })
const takers = postgres as unknown as Record<string, AnyFunction>
const names = Object.keys(takers).filter((name) => name.startsWith('from'))

describe('a driver that is not the right one', () => {
  test.each(names)('is refused by %s, which says what it takes', (name) => {
    for (const given of [undefined, null, 'postgres://localhost/orders', {}, name === 'fromPg' ? {} : pool]) {
      expect(() => takers[name]?.(given, () => {})).toThrow(
        expect.objectContaining({ code: 'option_invalid', message: expect.stringMatching(`^${name}\\(\\) needs an? `) }),
      )
    }
  })

  test('fromDrizzle asks for the sql of Drizzle', () => {
    const db = { execute: () => {}, transaction: () => {} }
    expect(() => takers.fromDrizzle?.(db)).toThrow("fromDrizzle() needs Drizzle's own sql besides the database: fromDrizzle(db, sql).")
  })
})

test('a pool where a connection belongs is refused by the store and by migrate', async () => {
  const refused = { code: 'option_invalid', message: expect.stringContaining('fromPg(pool)') }
  expect(() => postgres.postgresStore(pool as never)).toThrow(expect.objectContaining(refused))
  await expect(postgres.migrate(pool as never)).rejects.toMatchObject(refused)
})

test('work without a function is refused when it is defined, not when it first runs', () => {
  const once = createOnce({ store: postgres.postgresStore(postgres.fromPg(pool)) }) as unknown as Record<string, AnyFunction>
  for (const kind of ['operation', 'local', 'consumer']) {
    expect(() => once[kind]?.('orders.create', { tenant: 'single' })).toThrow(
      expect.objectContaining({ code: 'option_invalid', message: expect.stringMatching(/^'orders\.create' has nothing to do/) }),
    )
  }
})

test('a pool that is opened when it is first used is not opened by the check', () => {
  const opened: PropertyKey[] = []
  const get = (_: object, name: PropertyKey) => void opened.push(name)
  postgres.fromPg(new Proxy({}, { get }) as unknown as pg.Pool)
  expect(opened).toEqual([])
})
