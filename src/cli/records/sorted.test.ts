import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type DataRecord, recordOf } from './record.js'
import { sorted } from './sorted.js'

async function* records(ids: readonly (string | number)[]): AsyncGenerator<DataRecord> {
  for (const [index, id] of ids.entries()) yield recordOf(JSON.stringify({ id, note: '\t"\n' }), `line ${index + 1}`)
}

const leftovers = () => readdirSync(tmpdir()).filter((name) => name.startsWith('oncekey-sort-'))

test('sorts more than fits, by bytes, and keeps every record as it was and where it stood', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: 'binary', maxLength: 4 }), { maxLength: 20 }),
      fc.integer({ min: 1, max: 200 }),
      async (ids, atOnce) => {
        const found: DataRecord[] = []
        for await (const record of sorted(records(ids), ['id'], atOnce)) found.push(record)
        const keys = found.map(({ value }) => value.id as string)
        expect(keys).toEqual(ids.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))))
        for (const { value, where } of found) expect(ids[Number(where.slice(5)) - 1]).toBe(value.id)
      },
    ),
    { numRuns: 15 },
  )
})

test('sorts numbers as numbers', async () => {
  const found: unknown[] = []
  for await (const { value } of sorted(records([10, 9, -1, 100]), ['id'], 20)) found.push(value.id)
  expect(found).toEqual([-1, 9, 10, 100])
})

test('leaves no files behind, whether it is read to its end or not', async () => {
  const before = leftovers()
  for await (const _ of sorted(records(['b', 'a', 'c']), ['id'], 1)) break
  async function* broken() {
    yield* records(['b', 'a'])
    throw new Error('the file broke')
  }
  await expect(sorted(broken(), ['id'], 1).next()).rejects.toThrow('the file broke')
  expect(leftovers()).toEqual(before)
})
