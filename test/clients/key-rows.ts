import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { ChargesService } from './charges-service.js'

/** What came back, in words that every client has. */
export interface ClientAnswer {
  readonly status: number
  header(name: string): string | undefined
  readonly body: string
}

/** Sends the standard charge with these header lines. */
export type Charge = (service: ChargesService, lines: readonly KeyLine[]) => Promise<ClientAnswer>

export type KeyLine = readonly [name: string, value: string]

type Row = readonly [what: string, lines: (key: string) => KeyLine[]]

const name = 'Idempotency-Key'

/** Ways to write one key: each is the same key as the quoted one. */
export const sameKey: readonly Row[] = [
  ['quoted', (key) => [[name, `"${key}"`]]],
  ['unquoted', (key) => [[name, key]]],
  ['with a parameter', (key) => [[name, `"${key}";v=1`]]],
  ['with parameters of all types', (key) => [[name, `"${key}"; a;b=?0;c="x;y";d=1.5;e=:aGk=:;f=tok/en`]]],
  ['the name in lower case', (key) => [['idempotency-key', `"${key}"`]]],
  ['the name in upper case', (key) => [['IDEMPOTENCY-KEY', `"${key}"`]]],
]

/** Headers that are refused by the layer, on whatever way they come. */
export const refused: readonly Row[] = [
  ['an empty value', () => [[name, '']]],
  ['an empty string', () => [[name, '""']]],
  ['a string that does not end', (key) => [[name, `"${key}`]]],
  ['something behind the string', (key) => [[name, `"${key}" x`]]],
  ['a TAB in the string', (key) => [[name, `"${key}\tx"`]]],
  ['a TAB in a raw key', (key) => [[name, `${key}\tx`]]],
  ['a letter that is not ASCII', (key) => [[name, `"${key}é"`]]],
  ['256 characters', (key) => [[name, `"${key.padEnd(256, 'x')}"`]]],
  ['9,000 characters', (key) => [[name, `"${key.padEnd(9_000, 'x')}"`]]],
  ['a parameter without quotes', (key) => [[name, `${key};v=1`]]],
  ['a list of two strings', (key) => [[name, `"${key}", "${key}"`]]],
  ['a byte sequence', (key) => [[name, `:${btoa(key)}:`]]],
  ['a date', () => [[name, '@1659578233']]],
]

/** The same header twice: with `fetch` they are one line by the time they are sent. */
export const twoLines: readonly Row[] = [
  [
    'two lines with one key',
    (key) => [
      [name, `"${key}"`],
      [name, `"${key}"`],
    ],
  ],
  [
    'two lines with two keys',
    (key) => [
      [name, `"${key}"`],
      [name.toLowerCase(), `"${key}-2"`],
    ],
  ],
]

/** First with the lines of the row, then quoted: one run, one answer. */
export async function expectSameKey(service: ChargesService, charge: Charge, lines: (key: string) => KeyLine[]): Promise<void> {
  const key = randomUUID()
  const first = await charge(service, lines(key))
  const again = await charge(service, [[name, `"${key}"`]])
  expect([first.status, first.header('idempotent-replayed')]).toEqual([201, undefined])
  expect([again.status, again.header('idempotent-replayed')]).toEqual([201, 'true'])
  expect(again.body).toBe(first.body)
  expect(service.runs()).toBe(1)
}

export async function expectRefusal(service: ChargesService, charge: Charge, lines: (key: string) => KeyLine[]): Promise<void> {
  const key = randomUUID()
  const answer = await charge(service, lines(key))
  expect([answer.status, answer.header('content-type')]).toEqual([400, 'application/problem+json'])
  expect(JSON.parse(answer.body)).toMatchObject({ code: 'key_invalid', status: 400, detail: expect.not.stringContaining(key) })
  expect(service.runs()).toBe(0)
  // Nothing of it is known: the key itself is free.
  const honest = await charge(service, [[name, `"${key}"`]])
  expect([honest.status, honest.header('idempotent-replayed'), service.runs()]).toEqual([201, undefined, 1])
}
