import { expect, test } from 'vitest'
import type { Once } from '../create-once.js'
import type { Attempt } from '../phases/attempt.js'
import { hasRun, rememberAttempt, runOf } from './run-of.js'

const once = {} as Once<never>
const anAttempt = () => ({ run: {} }) as Attempt<never>

test('a request has the run that it is part of, and the last one if it is used again', () => {
  const request = { url: '/orders' }
  expect(hasRun(request)).toBe(false)
  expect(runOf(once, request)).toBeUndefined()
  rememberAttempt(request, anAttempt())
  const attempt = anAttempt()
  rememberAttempt(request, attempt)
  expect(hasRun(request)).toBe(true)
  expect(runOf(once, request)).toBe(attempt.run)
  expect(JSON.stringify(request)).toBe('{"url":"/orders"}')
})

test('a proxy of a request is the same request', () => {
  const request = {}
  const attempt = anAttempt()
  rememberAttempt(request, attempt)
  expect(hasRun(new Proxy(request, {}))).toBe(true)
  expect(runOf(once, new Proxy(request, {}))).toBe(attempt.run)
})

test('a request that is frozen has one, too', () => {
  const request = Object.freeze({})
  const attempt = anAttempt()
  rememberAttempt(request, attempt)
  expect(hasRun(request)).toBe(true)
  expect(runOf(once, request)).toBe(attempt.run)
})

test.each([
  ['a copy', (request: object) => ({ ...request })],
  ['one on top of it', (request: object) => Object.create(request)],
])('%s is a request of its own', (_, derive) => {
  const request = {}
  rememberAttempt(request, anAttempt())
  const derived = derive(request)
  expect(hasRun(derived)).toBe(false)
  expect(runOf(once, derived)).toBeUndefined()
})
