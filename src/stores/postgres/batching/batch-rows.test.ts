import { expect, test } from 'vitest'
import { batchRows } from './batch-rows.js'
import { SentArray } from './sent-array.js'

type Row = [string, Uint8Array | null, number]

const { valuesOf, source, value, parameters } = batchRows('row', {
  id: { type: 'uuid', of: ([id]: Row) => id },
  body: { type: 'bytea', of: ([, body]: Row) => body },
  size: { type: 'integer', of: ([, , size]: Row) => size },
})

const asTexts = (rows: readonly Row[]) => valuesOf(rows).map((sent) => (sent instanceof SentArray ? sent.text() : sent))

test('bytes are one parameter, and two columns say where those of each row are', () => {
  const given: Row[] = [
    ['a', Uint8Array.of(1, 2), 7],
    ['b', null, 8],
    ['c', new Uint8Array(), 9],
    ['d', Uint8Array.of(3), 9],
  ]
  expect(asTexts(given)).toEqual(['{a,b,c,d}', Buffer.from([1, 2, 3]), '{1,NULL,3,3}', '{2,NULL,0,1}', '{7,8,9,9}'])
  expect(parameters).toBe(5)
  expect(value).toEqual({ id: 'row.id', body: 'substr($2::bytea, row.body_at, row.body_size)', size: 'row.size' })
  expect(source).toContain('as row (id, body_at, body_size, size)')
})

test('a column that no row has is empty', () => {
  expect(
    asTexts([
      ['a', null, 7],
      ['b', null, 7],
    ]),
  ).toEqual(['{a,b}', Buffer.alloc(0), '{}', '{}', '{7,7}'])
})

test('more bytes than go with one statement are an error of these rows, and not of the way to the database', () => {
  const large: Row = ['a', new Uint8Array(32 * 1024 * 1024), 1]
  expect(() => valuesOf([large, large])).toThrow(RangeError)
})
