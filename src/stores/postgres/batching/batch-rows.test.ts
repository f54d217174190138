import { expect, test } from 'vitest'
import { batchRows } from './batch-rows.js'

const { valuesOf, rows, parameters } = batchRows({ id: 'uuid', body: 'bytea', size: 'integer' }, '')

test('bytes are one parameter, and two columns say where those of each row are', () => {
  const given: [string, Uint8Array | null, number][] = [
    ['a', Uint8Array.of(1, 2), 7],
    ['b', null, 8],
    ['c', new Uint8Array(), 9],
    ['d', Uint8Array.of(3), 9],
  ]
  const values = valuesOf(given, (row, column) => row[column] as (typeof row)[number])
  expect(values).toEqual(['{a,b,c,d}', Buffer.from([1, 2, 3]), '{1,NULL,3,3}', '{2,NULL,0,1}', '{7,8,9,9}'])
  expect(values).toHaveLength(parameters)
  expect(rows).toContain('substr($2::bytea, body_at, body_size) as body')
})

test('more bytes than go with one statement are an error of these rows, and not of the way to the database', () => {
  const large = new Uint8Array(32 * 1024 * 1024)
  expect(() => valuesOf([large, large], (row, column) => (column === 1 ? row : null))).toThrow(RangeError)
})
