import { expect, test } from 'vitest'
import type { Answer } from '../../src/core/answer.js'
import { anAnswer, assertSameAnswer } from '../../src/testing/store-cases/store-case.js'

const withBody = (body: unknown) => ({ ...anAnswer, body }) as Answer

test('a body that comes back as a Buffer is the same', () => {
  expect(() => assertSameAnswer(withBody(Buffer.from(anAnswer.body)), anAnswer)).not.toThrow()
})

test.each([
  ['an ArrayBuffer', Uint8Array.from(anAnswer.body).buffer],
  ['what JSON makes of a Buffer', JSON.parse(JSON.stringify(Buffer.from(anAnswer.body)))],
])('%s is no body, whatever it says', (_, body) => {
  expect(() => assertSameAnswer(withBody(body), anAnswer)).toThrow('Uint8Array')
})
