import { describe, expect, test } from 'vitest'
import { type ErrorCode, errorStatuses, isOncekeyError, OncekeyError } from './errors.js'

describe('OncekeyError', () => {
  test('carries its code, the status that fits, a sentence and a cause', () => {
    const cause = new Error('connection refused')
    const error = new OncekeyError('store_unavailable', 'The store cannot be reached.', { cause })
    expect(error).toMatchObject({ name: 'OncekeyError', code: 'store_unavailable', status: 503, message: 'The store cannot be reached.' })
    expect(error.cause).toBe(cause)
    expect(error).toBeInstanceOf(Error)
    expect(String(error)).toBe('OncekeyError: The store cannot be reached.')
  })

  test('has an HTTP error status for every code', () => {
    for (const [code, status] of Object.entries(errorStatuses)) {
      expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/)
      expect(new OncekeyError(code as ErrorCode, 'x').status).toBe(status)
      expect([400, 409, 500, 503]).toContain(status)
    }
  })

  test('blames the client for a bad key or input only, and an operator for deciding too late', () => {
    const clientErrors = Object.entries(errorStatuses).filter(([, status]) => status < 500)
    expect(clientErrors).toEqual([
      ['key_invalid', 400],
      ['input_invalid', 400],
      ['resolve_conflict', 409],
    ])
  })
})

describe('isOncekeyError', () => {
  /** What a second copy of the package in the same process would throw. */
  class OtherCopy extends Error {
    override readonly name = 'OncekeyError'
    readonly code = 'lease_lost'
  }

  test('recognises an error of this copy and of any other', () => {
    expect(isOncekeyError(new OncekeyError('lease_lost', 'x'))).toBe(true)
    expect(isOncekeyError(new OtherCopy('x'))).toBe(true)
  })

  test('asks for a code where one is given', () => {
    for (const error of [new OncekeyError('lease_lost', 'x'), new OtherCopy('x')]) {
      expect(isOncekeyError(error, 'lease_lost')).toBe(true)
      expect(isOncekeyError(error, 'store_full')).toBe(false)
    }
  })

  test('recognises nothing else', () => {
    const imitations = [new Error('x'), { name: 'OncekeyError', code: 'lease_lost' }, 'OncekeyError', null, undefined, 42]
    for (const value of imitations) expect(isOncekeyError(value)).toBe(false)
  })
})
