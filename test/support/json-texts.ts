import fc from 'fast-check'

const digits = (maxLength: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength })
const wholes = fc.oneof(
  fc.constant('0'),
  digits(20).map((text) => text.replace(/^0+(?=\d)/, '')),
)

/** Numbers as JSON writes them, many of which have no exact double. */
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

/** Valid JSON that `JSON.parse` often does not keep as it is. */
export const { value: jsonTexts } = fc.letrec<{ value: string; member: string }>((tie) => ({
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
