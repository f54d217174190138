import fc from 'fast-check'
import type { QueryConfig } from 'pg'
import { expect, test } from 'vitest'
import { binaryArray } from '../../src/stores/postgres/batching/array-binary.js'
import { arrayLiteral, type Element, writerOf } from '../../src/stores/postgres/batching/array-literal.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
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

/** A pool whose statements are seen. `asTexts`: bytes are sent as texts, as `pg.native` does. */
function watched({ asTexts }: { asTexts: boolean }) {
  const pool = database.createPool({ max: 4 })
  const sent: string[] = []
  const asText = (value: unknown) => (value instanceof Uint8Array ? `\\x${Buffer.from(value).toString('hex')}` : value)
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    const watching = (statement: string | QueryConfig, values: unknown, ...more: unknown[]) => {
      sent.push(typeof statement === 'string' ? statement : statement.text)
      return query(statement, asTexts && Array.isArray(values) ? values.map(asText) : values, ...more)
    }
    client.query = watching as typeof client.query
  })
  return { store: postgresStore(fromPg(pool)), sent }
}

const casts = (text: string) => [/::uuid\[\]/.test(text.replaceAll('::text::uuid[]', '')), text.includes('::text::uuid[]')]

test.each([{ asTexts: false }, { asTexts: true }])(
  'batches are sent in the binary format where that arrives ($asTexts: as texts)',
  async ({ asTexts }) => {
    const { store, sent } = watched({ asTexts })
    const work = async () => {
      const held = (await Promise.all(Array.from({ length: 8 }, () => take(store, aClaim())))) as Execute[]
      return Promise.all(held.map((each) => store.keyFinish(aFinish(each))))
    }
    await waitUntil('it is found out what arrives', async () => {
      await work()
      return sent.some((text) => text.includes('pg_backend_pid'))
    })
    await work()
    sent.length = 0
    expect(await work()).toEqual(Array.from({ length: 8 }, () => 'done'))
    const batches = sent.filter((text) => text.includes('unnest'))
    expect(batches.length).toBeGreaterThanOrEqual(2)
    for (const text of batches) expect(casts(text)).toEqual(asTexts ? [false, true] : [true, false])
  },
)
