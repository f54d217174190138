import fc from 'fast-check'

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => String.fromCharCode(from + index))

const printable = fc.constantFrom(...range(0x20, 0x7e))
const latin1 = fc.constantFrom(...range(0x00, 0xff))
const structure = fc.constantFrom(...'"\\;=,?:@(%)*-_. \ta1Z')
const strange = fc.constantFrom('\0', '\n', '\r', '\x1f', '\x7f', '\x80', '\xa0', '\xff', 'é', '\u2028', '\ufeff', '\ud800', '\udc00', '😀')
const anyCharacter = fc.oneof({ weight: 4, arbitrary: structure }, { weight: 3, arbitrary: printable }, latin1, strange)

const text = (unit: fc.Arbitrary<string>, maxLength: number, minLength = 0) => fc.string({ unit, minLength, maxLength, size: 'max' })
const quote = (key: string) => `"${key.replace(/["\\]/g, '\\$&')}"`
const joined = (...pieces: fc.Arbitrary<string>[]) => fc.tuple(...pieces).map((given) => given.join(''))
const repeated = (unit: string, from: number, to: number) => fc.integer({ min: from, max: to }).map((length) => unit.repeat(length))

const digits = text(fc.constantFrom(...'0123456789'), 17)
const hex = fc.constantFrom(...'0123456789abcdef')
const uuid = joined(text(hex, 8, 8), ...[4, 4, 4, 12].flatMap((length) => [fc.constant('-'), text(hex, length, length)]))
const nanoid = text(fc.constantFrom(...'_-', ...range(0x30, 0x39), ...range(0x41, 0x5a), ...range(0x61, 0x7a)), 21, 21)

const quotedKey = fc.oneof(text(printable, 12).map(quote), text(structure, 8).map(quote), uuid.map(quote))
const rawKey = fc.oneof(uuid, nanoid, digits, text(printable, 6), text(structure, 4))
/** About as long as a key may be. */
const longKey = fc.oneof(
  repeated('k', 253, 258),
  repeated('k', 253, 258).map(quote),
  repeated('"', 253, 258).map(quote),
  repeated('\\', 120, 130).map(quote),
)

/** Bare items of every type, right and just wrong. */
const bareItem = fc.oneof(
  joined(fc.constantFrom('', '-', '+'), digits),
  joined(fc.constantFrom('', '-'), digits, fc.constantFrom('.', '.5', '.125', '.1250')),
  quotedKey,
  text(fc.constantFrom(...'aZ*1:/!#$%&\'+-.^_`|~"('), 5),
  text(fc.constantFrom(...'aZ9+/='), 9).map((content) => `:${content}:`),
  fc.constantFrom('?0', '?1', '?2', '?', '', '(a)', '@1', '@-1', '@', '@1.5', '@123456789012345', '@1234567890123456'),
  text(fc.constantFrom('a', ' ', '%c3%a9', '%f0%9f%98%80', '%ff', '%C3', '%ed%a0%80', '%ef%bb%bf', '%00', '%', '\\', 'Ł'), 3).map(
    (content) => `%"${content}"`,
  ),
)
const parameterName = fc.constantFrom('a', 'x1', '*', 'a_-.*', 'X', '1', '', 'aB', 'é')
const parameter = fc
  .tuple(fc.constantFrom('', '', '', ' ', '  ', '\t'), parameterName, fc.option(bareItem, { nil: null }))
  .map(([space, name, value]) => `;${space}${name}${value === null ? '' : `=${value}`}`)
const parameters = fc.oneof(
  { weight: 3, arbitrary: fc.constant('') },
  { weight: 2, arbitrary: fc.constantFrom(';a', ';a=1', '; a="b"', ';a=@1', ';a=b;c=?0') },
  { weight: 3, arbitrary: fc.array(parameter, { minLength: 1, maxLength: 3 }).map((list) => list.join('')) },
)

const space = fc.constantFrom('', '', '', ' ', '\t', ' \t ')
const nearlyRight = joined(
  space,
  fc.oneof({ weight: 4, arbitrary: quotedKey }, { weight: 4, arbitrary: rawKey }, longKey),
  parameters,
  space,
)

/** One character is put in, taken out, exchanged or doubled, or the end is cut off. */
const edit = fc.tuple(fc.constantFrom('insert', 'remove', 'replace', 'double', 'cut'), fc.nat(), anyCharacter)
function edited(value: string, [how, place, character]: [string, number, string]): string {
  const at = place % (value.length + 1)
  if (how === 'cut') return value.slice(0, at)
  const middle = { insert: character, remove: '', replace: character, double: value.slice(at, at + 1).repeat(2) }[how] ?? ''
  return `${value.slice(0, at)}${middle}${value.slice(how === 'insert' ? at : at + 1)}`
}
const mutated = fc
  .tuple(nearlyRight, fc.array(edit, { minLength: 1, maxLength: 3 }))
  .map(([value, edits]) => edits.reduce((changed, one) => edited(changed, one), value))

/** About as long as a line may be. */
const longLine = fc
  .tuple(fc.oneof(quotedKey, rawKey), fc.integer({ min: 8_188, max: 8_196 }), fc.constantFrom('space', 'parameter', 'key'))
  .map(([key, length, what]) => {
    if (what === 'space') return key.padEnd(length)
    return what === 'key' ? key.padEnd(length, 'k') : `${`${key};a="`.padEnd(length - 1, 'b')}"`
  })

const line = fc.oneof(
  { weight: 40, arbitrary: nearlyRight },
  { weight: 30, arbitrary: mutated },
  { weight: 15, arbitrary: text(structure, 8) },
  { weight: 5, arbitrary: text(anyCharacter, 12) },
  { weight: 5, arbitrary: text(latin1, 40) },
  { weight: 5, arbitrary: joined(nearlyRight, fc.constantFrom(', ', ',', ' , '), nearlyRight) },
  { weight: 1, arbitrary: longLine },
)

/** The lines of a header: one as a rule. */
export const headerLines = fc.oneof(
  { weight: 98, arbitrary: line.map((one) => [one]) },
  { weight: 2, arbitrary: fc.array(line, { maxLength: 3 }) },
)
