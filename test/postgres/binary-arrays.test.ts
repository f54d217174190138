import fc from 'fast-check'
import type { QueryConfig } from 'pg'
import { expect, test } from 'vitest'
import type { Answer, OncekeyError } from '../../src/index.js'
import { binaryArray } from '../../src/stores/postgres/batching/array-binary.js'
import { arrayLiteral, type Element, writerOf } from '../../src/stores/postgres/batching/array-literal.js'
import { type FromPgOptions, fromPg, type PostgresStore, postgresStore } from '../../src/stores/postgres/index.js'
import { aClaim, aFinish, type Execute, take } from '../../src/testing/store-cases/store-case.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'

const database = useDatabase()

const text = fc.string({ unit: 'grapheme' }).filter((value) => !value.includes('\0'))
const elements: Record<string, fc.Arbitrary<Element>> = {
  text: fc.oneof(text, fc.constantFrom('', 'NULL', 'null', '"', '\\', '{a,b}', 'ünï💥', '\n\t', ' ')),
  uuid: fc.oneof(
    fc.uuid(),
    fc.uuid().map((id) => id.toUpperCase()),
  ),
  integer: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
  smallint: fc.integer({ min: -(2 ** 15), max: 2 ** 15 - 1 }),
  float8: fc.oneof(fc.double({ noNaN: true }), fc.constantFrom(0, 86_400_000)),
}

test.each(Object.entries(elements))('arrays of %s arrive alike, as text and in the binary format', async (type, element) => {
  const array = fc.array(fc.option(element, { freq: 5 }), { maxLength: 40 })
  const runs = fc.asyncProperty(array, fc.boolean(), async (given, repeats) => {
    // Elements that are the same as the one before are a way of their own.
    const sent = repeats ? given.flatMap((each) => [each, each, each]) : given
    const itself = (each: Element) => each
    const { rows } = await database.pool.query(
      `select $1::${type}[] is not distinct from $2::text::${type}[] as same, cardinality($1::${type}[]) as count`,
      [binaryArray(type, sent, itself), arrayLiteral(sent, itself, writerOf(type))],
    )
    expect(rows[0]).toEqual({ same: true, count: sent.every((each) => each === null) ? 0 : sent.length })
  })
  await fc.assert(runs, { numRuns: 150 })
})

const asText = (value: unknown) => (value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value)

/** Whether clients make texts of bytes, as `pg.native` does, or pass them on, as `pg` does. */
type Textual = 'no client' | 'each client'

/** A pool whose statements are seen. */
function watched(textual: Textual, options: FromPgOptions = {}) {
  const pool = database.createPool({ max: 4 })
  const sent: string[] = []
  const failed: unknown[] = []
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    const watching = (statement: string | QueryConfig, values: unknown, ...more: unknown[]) => {
      sent.push(typeof statement === 'string' ? statement : statement.text)
      const answer = query(statement, textual === 'each client' && Array.isArray(values) ? values.map(asText) : values, ...more)
      if (answer instanceof Promise) answer.catch((error: unknown) => failed.push(error))
      return answer
    }
    client.query = watching as typeof client.query
  })
  const connection = fromPg(pool, options)
  return { connection, store: postgresStore(connection), sent, failed }
}

const casts = (text: string) => [/::uuid\[\]/.test(text.replaceAll('::text::uuid[]', '')), text.includes('::text::uuid[]')]

const eight = async (store: PostgresStore<unknown>) =>
  (await Promise.all(Array.from({ length: 8 }, () => take(store, aClaim())))) as Execute[]

async function claimAndFinish(store: PostgresStore<unknown>) {
  const held = await eight(store)
  return Promise.all(held.map((each) => store.keyFinish(aFinish(each))))
}

const foundOut = ({ store, connection }: ReturnType<typeof watched>) =>
  waitUntil('it is found out what arrives', async () => {
    await claimAndFinish(store)
    return connection.sendsBinary !== undefined
  })

test.each<[Textual, boolean]>([
  ['no client', true],
  ['each client', false],
])('where %s makes texts of bytes, batches are sent in the binary format: %s', async (textual, isBinary) => {
  const pool = watched(textual)
  const { store, sent, failed } = pool
  await foundOut(pool)
  sent.length = 0
  expect(await claimAndFinish(store)).toEqual(Array.from({ length: 8 }, () => 'done'))
  const batches = sent.filter((text) => text.includes('unnest'))
  expect(batches.length).toBeGreaterThanOrEqual(2)
  for (const text of batches) expect(casts(text)).toEqual([isBinary, !isBinary])
  expect(failed).toEqual([])
})

test('whose process a connection is, is not asked for where it is said that statements have names, or none', async () => {
  const pool = watched('no client', { prepare: false })
  await foundOut(pool)
  expect(pool.sent.filter((text) => text.includes('pg_backend_pid'))).toEqual([])
})

test('a value that fits in no column is the error of its own row, and of no other', async () => {
  const pool = watched('no client')
  await foundOut(pool)
  const [bad, ...good] = await eight(pool.store)
  const tooMuch: Answer = { status: 200, headers: [], body: new Uint8Array(), omittedBytes: 2 ** 31 }
  const finished = [aFinish(bad as Execute, { answer: tooMuch }), ...good.map((each) => aFinish(each))]
  const results = await Promise.all(finished.map((finish) => pool.store.keyFinish(finish).catch((error: OncekeyError) => error.code)))
  expect(results).toEqual(['store_failed', ...good.map(() => 'done')])
})
