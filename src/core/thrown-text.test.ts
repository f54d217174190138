import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { monsters } from '../../test/support/monsters.js'
import { isSimulatedCrash } from './crash-points.js'
import { isOncekeyError, isStoreTrouble, OncekeyError } from './errors.js'
import { storableErrorText } from './storable-text.js'
import { isError, namedThrownText, thrownText } from './thrown-text.js'

const readers = { thrownText, namedThrownText, storableErrorText, isError, isOncekeyError, isStoreTrouble, isSimulatedCrash }

describe('what a thrown value says', () => {
  test('is its message, or the value as text', () => {
    expect([new Error('down'), { message: 'slow down' }, 'gone', undefined, null, 410].map(thrownText)).toEqual([
      'down',
      'slow down',
      'gone',
      'undefined',
      'null',
      '410',
    ])
  })

  test('has the name of an error in front where it is asked for', () => {
    const thrown = [
      new TypeError('down'),
      new Error(),
      new OncekeyError('lease_lost', 'gone'),
      'gone',
      Object.assign(new Error('x'), { name: '' }),
    ]
    expect(thrown.map(namedThrownText)).toEqual(['TypeError: down', 'Error', 'OncekeyError: gone', 'gone', 'x'])
  })

  test.each(Object.entries(monsters))('is a text of limited length, of %s', (_, monster) => {
    const thrown = monster()
    for (const text of [thrownText(thrown), namedThrownText(thrown), storableErrorText(thrown)]) {
      expect(typeof text).toBe('string')
      expect(text.length).toBeLessThan(10_000)
    }
  })

  test('can be read of anything', () => {
    fc.assert(
      fc.property(
        fc.anything({
          withNullPrototype: true,
          withBigInt: true,
          withObjectString: true,
          withDate: true,
          withTypedArray: true,
          withSparseArray: true,
        }),
        fc.boolean(),
        (value, asMessage) => {
          const thrown = asMessage ? Object.assign(new Error(), { message: value, name: value, code: value, status: value }) : value
          for (const read of Object.values(readers)) read(thrown)
          expect(thrownText(thrown).length).toBeLessThan(10_000)
        },
      ),
    )
  })

  test.each(Object.entries(monsters))('is looked at without throwing, of %s', (_, monster) => {
    for (const read of Object.values(readers)) expect(() => read(monster())).not.toThrow()
  })
})
