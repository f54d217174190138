import { expect, test } from 'vitest'
import { TransactionPart } from './transaction-part.js'

test('a part that ends after the one around it leaves the transaction free', async () => {
  const tx = {}
  const parent = TransactionPart.nested(tx, 'parent')
  parent.identify('1 1')
  let child: TransactionPart | undefined
  void parent.work(() => {
    child = TransactionPart.nested(tx, 'child')
    child.identify('1 1')
  })
  // Given up, such as at maxRun.
  parent.end()
  child?.end()
  const next = TransactionPart.nested(tx, 'next')
  next.identify('1 1')
  next.end()
})

test('a part that meets one of another object of its transaction fails, and so does that one', () => {
  const [one, other] = [TransactionPart.nested({}, 'one'), TransactionPart.nested({}, 'other')]
  one.identify('2 2')
  expect(() => other.identify('2 2')).toThrow("'other' was not done")
  expect(() => one.assertAlone()).toThrow("'one' was not done")
  one.end()
  expect(() => other.identify('2 2')).not.toThrow()
  other.end()
})
