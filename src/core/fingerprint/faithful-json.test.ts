import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isFaithfulJson } from './faithful-json.js'

describe('isFaithfulJson', () => {
  test.each([
    ['{}'],
    ['[]'],
    [' null '],
    ['"9007199254740993"'],
    ['{"9007199254740993": 1}'],
    ['9007199254740992'],
    ['-9007199254740991'],
    ['1e22'],
    ['1E+2'],
    ['0.1'],
    ['0.30000000000000004'],
    ['123456789012345.0'],
    ['1.7976931348623157e308'],
    ['5e-324'],
    ['-0'],
    ['0e999999999999'],
    ['0.000'],
    ['{"a":{"a":1},"b":[{"a":1},{"a":1}]}'],
    ['{"a":"a","b":"a"}'],
    ['["a","a"]'],
    ['{"a":1,"A":1,"a ":1}'],
    ['{"\\\\":1,"\\"":2,"}":3,":":4}'],
    ['{"a\\\\":1,"a":2}'],
  ])('trusts %s', (text) => {
    expect(isFaithfulJson(text)).toBe(true)
  })

  test.each([
    ['9007199254740993'],
    ['-9007199254740993'],
    ['9007199254740993.0'],
    ['12345678901234567890'],
    ['0.1000000000000000055511151231257827'],
    ['1e400'],
    ['-1e400'],
    ['1e-400'],
    ['1e999999999999999999999'],
    ['2.4e-324'],
    ['[1,[2,{"a":9007199254740993}]]'],
    ['{"a":1,"a":1}'],
    ['{"a":1,"b":2,"a":3}'],
    ['{"a":1, "\\u0061" : 2}'],
    ['{"":1,"":2}'],
    ['{"__proto__":1,"__proto__":2}'],
    ['{"constructor":1,"constructor":2}'],
    ['{"a":{"b":1,"b":2}}'],
    ['[{"a":{"x":[]},"a":1}]'],
    ['{"a"\n:1,"a"\t:2}'],
  ])('does not trust %s', (text) => {
    expect(isFaithfulJson(text)).toBe(false)
  })

  test('trusts the longest spelling of the largest and the smallest double, and none that is longer still', () => {
    expect(isFaithfulJson(`1${'0'.repeat(308)}`)).toBe(true)
    expect(isFaithfulJson(`0.${'0'.repeat(323)}5`)).toBe(true)
    expect(isFaithfulJson(`1.${'0'.repeat(398)}`)).toBe(true)
    expect(isFaithfulJson(`1.${'0'.repeat(399)}`)).toBe(false)
  })

  test('gives up on nesting deeper than its limit, and not before', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`
    expect(isFaithfulJson(nested(256))).toBe(true)
    expect(isFaithfulJson(nested(257))).toBe(false)
    expect(isFaithfulJson('[{"a":[]}]', 3)).toBe(true)
    expect(isFaithfulJson('[{"a":[]}]', 2)).toBe(false)
    expect(isFaithfulJson(`[${'[],'.repeat(1_000)}[]]`, 2)).toBe(true)
  })

  test('agrees with a parser that loses nothing', () => {
    fc.assert(
      fc.property(texts, (text) => {
        JSON.parse(text)
        expect(isFaithfulJson(text)).toBe(keepsEverything(text))
      }),
      { numRuns: 3_000 },
    )
  })
})

const digits = (maxLength: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength })
const wholes = fc.oneof(
  fc.constant('0'),
  digits(20).map((text) => text.replace(/^0+(?=\d)/, '')),
)
const numbers = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
  fc.bigInt({ min: 2n ** 53n - 4n, max: 2n ** 53n + 8n }).map(String),
  fc
    .tuple(
      fc.constantFrom('', '-'),
      wholes,
      fc.option(digits(20), { nil: '' }),
      fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'e-'), fc.nat(340)), { nil: null }),
    )
    .map(([sign, whole, fraction, exponent]) => `${sign}${whole}${fraction && `.${fraction}`}${exponent ? exponent.join('') : ''}`),
)
/** Few names in several spellings, so that they meet, and some that look like structure. */
const strings = fc.constantFrom(
  '"a"',
  '"\\u0061"',
  '"b"',
  '""',
  '"\\\\"',
  '"\\""',
  '"}"',
  '"[1e400"',
  '"a\\\\"',
  '"é"',
  '"\\u00E9"',
  '"a:"',
)
const space = fc.constantFrom('', '', ' ', '\n\t ')

const { value: texts } = fc.letrec<{ value: string; member: string }>((tie) => ({
  member: fc.tuple(space, strings, space, tie('value')).map(([before, name, after, value]) => `${before}${name}${after}:${value}`),
  value: fc
    .tuple(
      space,
      fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.oneof(numbers, strings, fc.constantFrom('true', 'false', 'null')),
        fc.array(tie('value'), { maxLength: 4 }).map((values) => `[${values}]`),
        fc.array(tie('member'), { maxLength: 4 }).map((members) => `{${members}}`),
      ),
      space,
    )
    .map((pieces) => pieces.join('')),
}))

/** A JSON reader that keeps members as a list and numbers as decimals. True if the way through JSON.parse changes neither. */
function keepsEverything(text: string): boolean {
  let at = 0
  const skipSpace = () => {
    while (' \n\t\r'.includes(text[at] ?? '?')) at += 1
  }
  function readString(): string {
    let content = ''
    for (at += 1; text[at] !== '"'; at += 1) {
      if (text[at] !== '\\') content += text[at]
      else if (text[at + 1] === 'u') {
        content += String.fromCharCode(Number.parseInt(text.slice(at + 2, at + 6), 16))
        at += 5
      } else {
        content += text[at + 1]
        at += 1
      }
    }
    at += 1
    return content
  }
  function readList(end: string, readItem: () => boolean): boolean {
    let kept = true
    at += 1
    skipSpace()
    while (text[at] !== end) {
      kept = readItem() && kept
      if (text[at] === ',') at += 1
    }
    at += 1
    return kept
  }
  function readMember(names: Set<string>): boolean {
    skipSpace()
    const name = readString()
    const isNew = !names.has(name)
    names.add(name)
    skipSpace()
    at += 1
    return readValue() && isNew
  }
  function readScalar(): boolean {
    const [token] = /^[^\s,\]}]+/.exec(text.slice(at)) as [string]
    at += token.length
    return ['true', 'false', 'null'].includes(token) || isSameNumber(token, JSON.stringify(JSON.parse(token)))
  }
  function readValue(): boolean {
    skipSpace()
    let kept = true
    if (text[at] === '"') readString()
    else if (text[at] === '[') kept = readList(']', readValue)
    else if (text[at] === '{') {
      const names = new Set<string>()
      kept = readList('}', () => readMember(names))
    } else kept = readScalar()
    skipSpace()
    return kept
  }
  return readValue()
}

/** Compares two decimals exactly, as integers over one power of ten. `null` is what JSON makes of an infinite double. */
function isSameNumber(a: string, b: string): boolean {
  if (b === 'null') return false
  const [first, second] = [integerAndPower(a), integerAndPower(b)]
  const power = Math.min(first.power, second.power)
  const scaled = ({ integer, power: own }: { integer: bigint; power: number }) => integer * 10n ** BigInt(own - power)
  return scaled(first) === scaled(second)
}

function integerAndPower(token: string): { integer: bigint; power: number } {
  const [mantissa = '', exponent = '0'] = token.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return { integer: BigInt(whole + fraction), power: Number(exponent) - fraction.length }
}
