import { expect, test } from 'vitest'
import type { Once } from '../create-once.js'
import type { OperationRun } from '../phases/operation-run.js'
import { hasRun, rememberRun, runOf } from './run-of.js'

const once = {} as Once<never>
const aRun = () => ({}) as OperationRun<never>

test('a request has the run that it is part of, and the last one if it is used again', () => {
  const request = { url: '/orders' }
  expect(hasRun(request)).toBe(false)
  expect(runOf(once, request)).toBeUndefined()
  rememberRun(request, aRun())
  const run = aRun()
  rememberRun(request, run)
  expect(hasRun(request)).toBe(true)
  expect(runOf(once, request)).toBe(run)
  expect(JSON.stringify(request)).toBe('{"url":"/orders"}')
})

test('a request that is frozen has one, too', () => {
  const request = Object.freeze({})
  const run = aRun()
  rememberRun(request, run)
  expect(hasRun(request)).toBe(true)
  expect(runOf(once, request)).toBe(run)
})

test.each([
  ['a copy', (request: object) => ({ ...request })],
  ['one on top of it', (request: object) => Object.create(request)],
])('%s is a request of its own', (_, derive) => {
  const request = {}
  rememberRun(request, aRun())
  const derived = derive(request)
  expect(hasRun(derived)).toBe(false)
  expect(runOf(once, derived)).toBeUndefined()
})
