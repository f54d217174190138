import { expect, test } from 'vitest'
import { binaryCasts, SentArray } from './sent-array.js'

test.each(['text', 'uuid', 'integer', 'smallint', 'float8'])(
  'a parameter of %s is an array at once where it is sent in the binary format',
  (type) => {
    expect(binaryCasts(`select ${SentArray.parameter(12, type)}, $1::text, $2::text::json`)).toBe(
      `select $12::${type}[], $1::text, $2::text::json`,
    )
  },
)
