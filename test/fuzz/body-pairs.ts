import fc from 'fast-check'
import { jsonTexts } from '../support/json-texts.js'
import { changedSomewhere, type Json, jsonValues, smallJsonValues, spelled } from '../support/json-values.js'
import type { Body } from './body-meaning.js'

type Pair = readonly [Body, Body]

const choices = fc.infiniteStream(fc.nat(999)).map((stream) => () => stream.next().value)
const values = fc.oneof(smallJsonValues, jsonValues)

const respelled = fc.tuple(values, choices).map(([value, next]): Pair => [spelled(value, next), spelled(value, next)])
const changed = fc
  .tuple(values, smallJsonValues, choices)
  .map(([value, other, next]): Pair => [spelled(value, next), spelled(changedSomewhere(value, other, next), next)])
const almost = fc.tuple(smallJsonValues, smallJsonValues, choices).map(([a, b, next]): Pair => [JSON.stringify(a), spelled(b, next)])
const texts = fc.tuple(jsonTexts, fc.oneof(jsonTexts, fc.constant(null))).map(([a, b]): Pair => [a, b ?? ` ${a}\n`])

const integerForms = [
  (digits: string) => digits,
  (digits: string) => `${digits}.0`,
  (digits: string) => `${digits}00e-2`,
  (digits: string) => `${digits}E0`,
  (digits: string) => `"${digits}"`,
]
const integers = fc
  .tuple(
    fc.oneof(fc.bigInt({ min: 2n ** 53n - 3n, max: 2n ** 53n + 9n }), fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }), fc.bigInt()),
    fc.bigInt({ min: -2n, max: 2n }),
    fc.constantFrom(...integerForms),
    fc.constantFrom(...integerForms),
  )
  .map(([integer, step, a, b]): Pair => [`{"id":${a(String(integer))}}`, `{"id":${b(String(integer + step))}}`])

const longForms = [
  (digits: number, zeros: number) => `${digits}${'0'.repeat(zeros)}`,
  (digits: number, zeros: number) => `${digits}e${zeros}`,
  (digits: number, zeros: number) => `${digits}${'0'.repeat(zeros)}.0`,
  (digits: number, zeros: number) => `0.${'0'.repeat(zeros)}${digits}`,
  (digits: number, zeros: number) => `0.${digits}e-${zeros}`,
  (digits: number, zeros: number) => `${digits}.${'0'.repeat(zeros)}`,
]
/** Up to where doubles end, and where numbers are too long to be looked at. */
const longNumbers = fc
  .tuple(fc.nat(12), fc.nat(1), fc.nat(410), fc.constantFrom(...longForms), fc.constantFrom(...longForms))
  .map(([digits, step, zeros, a, b]): Pair => [a(digits, zeros), b(digits + (step && zeros % 2), zeros)])

/** Names that are the same name, and names that only look like it. */
const member = fc.tuple(
  fc.constantFrom('"a"', '"a" ', ' "\\u0061"\n', '"A"', '"b"', '"__proto__"', '"toJSON"', '"é"', '"e\u0301"'),
  fc.nat(2),
)
const members = fc.array(member, { maxLength: 4 })
const objectOf = (list: [string, number][]) => `{${list.map(([name, value]) => `${name}:${value}`)}}`
const repeatedMembers = fc.tuple(members, fc.nat(4)).map(([list, how]): Pair => {
  const others = [[...list].reverse(), [...new Map(list)], [...new Map([...list].reverse())], list.slice(1), [...list, ...list.slice(0, 1)]]
  return [objectOf(list), objectOf(others[how] as [string, number][])]
})

const unit = fc.constantFrom('\ud83d', '\ude00', '\\ud83d', '\\ude00', '\\uD83D', '\ufffd', '\\ufffd', 'a')
const surrogates = fc.string({ unit, maxLength: 4 }).map((content) => `["${content}"]`)
const surrogatePairs = fc.tuple(surrogates, surrogates, fc.boolean()).map(([a, b, asBytes]): Pair => [a, asBytes ? Buffer.from(b) : b])

const nested = (depth: number, inObjects: boolean, core: string) =>
  inObjects ? `${'{"a":'.repeat(depth)}${core}${'}'.repeat(depth)}` : `${'['.repeat(depth)}${core}${']'.repeat(depth)}`
const cores = [
  ['1', '1.0'],
  ['[ ]', '[]'],
  ['"a"', '"\\u0061"'],
  ['1', '2'],
  ['{}', '[]'],
]
const deep = (...depths: number[]) =>
  fc
    .tuple(fc.constantFrom(...depths), fc.boolean(), fc.constantFrom(...cores), fc.boolean())
    .map(([depth, inObjects, core, twice]): Pair => {
      const [a, b] = core.map((one) => nested(depth, inObjects, one)) as [string, string]
      return [a, twice ? a : b]
    })

const huge = fc.tuple(fc.nat(19_999), fc.constantFrom<Json>(0, 1, null, [], 'a')).map(([at, other]): Pair => {
  const list = Array.from({ length: 20_000 }, (_, index): Json => index % 7)
  return [JSON.stringify(list), JSON.stringify(list.with(at, other), null, at % 2)]
})

const anyText = fc.oneof(
  fc.tuple(values, choices).map(([value, next]) => spelled(value, next)),
  jsonTexts,
)
const character = fc.constantFrom(...'{}[]:,"\\u0123456789-+.eE truefalsn\n\t\0\x1f\x7f\xa0\u2028\ufeffé')
const edits = fc.array(fc.tuple(fc.nat(), fc.nat(1), fc.option(character, { nil: '' })), { minLength: 1, maxLength: 2 })
const edited = (text: string, list: [number, number, string][]) =>
  list.reduce((changing, [place, taken, put]) => {
    const at = place % (changing.length + 1)
    return changing.slice(0, at) + put + changing.slice(at + taken)
  }, text)
const broken = fc
  .tuple(anyText, edits, edits, fc.boolean())
  .map(([text, a, b, both]): Pair => [edited(text, a), both ? edited(text, b) : text])

const marks = fc.constantFrom('', '\ufeff', '\ufeff\ufeff', ' \ufeff')
const marked = fc
  .tuple(fc.oneof(anyText, fc.constantFrom('', '1', '[]')), marks, marks)
  .map(([text, a, b]): Pair => [a + text, Buffer.from(b + text)])

/** Bytes that are no UTF-8, or no longer. */
const byteEdits = fc.array(fc.tuple(fc.nat(), fc.constantFrom(0xff, 0xc0, 0xed, 0xa0, 0x80, 0xef, 0xbf, 0xbd, 0x00, 0x22)), {
  maxLength: 2,
})
const withBytes = (text: string, list: [number, number][]) => {
  const bytes = new Uint8Array(Buffer.from(text))
  for (const [place, byte] of list) bytes[place % bytes.length] = byte
  return bytes
}
const otherBytes = fc
  .tuple(fc.oneof(anyText, fc.constantFrom('["é"]', '["\ufffd"]', '["😀"]')), byteEdits, byteEdits)
  .map(([text, a, b]): Pair => [withBytes(text, a), withBytes(text, b)])

/** Two bodies that are called JSON: the same in other words, one change apart, or strangers. */
export const bodyPairs: fc.Arbitrary<Pair> = fc.oneof(
  { weight: 150, arbitrary: respelled },
  { weight: 150, arbitrary: changed },
  { weight: 100, arbitrary: almost },
  { weight: 150, arbitrary: texts },
  { weight: 100, arbitrary: integers },
  { weight: 100, arbitrary: repeatedMembers },
  { weight: 50, arbitrary: surrogatePairs },
  { weight: 100, arbitrary: broken },
  { weight: 50, arbitrary: marked },
  { weight: 50, arbitrary: otherBytes },
  { weight: 50, arbitrary: longNumbers },
  { weight: 20, arbitrary: deep(254, 255, 256, 257) },
  { weight: 2, arbitrary: deep(2_000) },
  { weight: 1, arbitrary: huge },
)
