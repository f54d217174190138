import fc from 'fast-check'
import { serializeItem } from 'structured-headers'
import { describe, expect, test } from 'vitest'
import { maxKeyLength } from '../core/key.js'
import { type KeySyntax, parseKey } from './parse-key.js'

const syntaxes: KeySyntax[] = ['lenient', 'strict']

/** The key; `missing`; or the first words of what the client is told, which say what is wrong. */
function read(value: string | string[], syntax: KeySyntax): string {
  const reading = parseKey(typeof value === 'string' ? [value] : value, syntax)
  if ('missing' in reading) return 'missing'
  return 'key' in reading ? `key ${reading.key}` : `invalid: ${reading.invalid.split(/[.:]/)[0]}`
}

const empty = 'invalid: The key is empty'
const tooLong = 'invalid: The key is longer than 255 characters'
const lineTooLong = 'invalid: The header is longer than 8192 characters'
const twice = 'invalid: The key was sent more than once'
const notAscii = 'invalid: The header has characters that are not printable ASCII'
const notOneString = 'invalid: The header is not one quoted string'
const notQuoted = 'invalid: The key is not a quoted string'
const notRaw = 'invalid: The key needs double quotes around it'

const uuid = '8e03978e-40d5-43e8-bc93-6894a57f9324'

describe.each(syntaxes)('in the %s syntax', (syntax) => {
  test.each<[string, string, string]>([
    ['K1: a quoted key', `"${uuid}"`, uuid],
    ['K1: one character', '"k"', 'k'],
    ['K1: every character that a string may have', serializeItem(allPrintable()), allPrintable()],
    ['K1: a quoted space', '" "', ' '],
    ['K1: a quoted key that looks like another type', '"?1"', '?1'],
    ['K1: quoted commas and semicolons', '"a, b;c"', 'a, b;c'],
    ['K1: spaces and TABs around it', ' \t "k"\t \t', 'k'],
    ['K1: spaces inside, as they are', '" k  k "', ' k  k '],
    ['K4: an escaped quotation mark', '"a\\"b"', 'a"b'],
    ['K4: an escaped backslash', '"a\\\\b"', 'a\\b'],
    ['K4: the same without', '"ab"', 'ab'],
    ['K5: a parameter', '"k";x=1', 'k'],
    ['K5: a parameter without a value', '"k";x', 'k'],
    ['K5: a space before the name of a parameter', '"k"; x', 'k'],
    ['K5: parameters of each type', '"k";a=1;b=-1.5;c="x;y";d=t/x:y;e=:aGk=:;f=?0;g=%"%c3%a9";*h=@-1', 'k'],
    ['K5: a parameter twice', '"k";x=1;x=2', 'k'],
    ['K7: 255 characters', `"${'k'.repeat(255)}"`, 'k'.repeat(255)],
    ['K7: 255 characters, each of them escaped', `"${'\\"'.repeat(255)}"`, '"'.repeat(255)],
    ['K8: upper case', '"ABC"', 'ABC'],
    ['K8: lower case', '"abc"', 'abc'],
  ])('reads %s', (_, value, key) => {
    expect(parseKey([value], syntax)).toEqual({ key })
  })

  test('K6: tells that there is none', () => {
    expect(parseKey([], syntax)).toEqual({ missing: true })
  })

  test.each<[string, string | string[], string]>([
    ['K7: an empty value', '', empty],
    ['K7: white space', ' \t ', empty],
    ['K7: an empty string', '""', empty],
    ['K7: an empty string with parameters', '"";x=1', empty],
    ['K7: 256 characters', `"${'k'.repeat(256)}"`, tooLong],
    ['K7: 256 characters, each of them escaped', `"${'\\\\'.repeat(256)}"`, tooLong],
    ['K7: no quotation mark at its end', '"k', notOneString],
    ['K7: a quotation mark alone', '"', notOneString],
    ['K7: an escaped quotation mark at its end', '"k\\"', notOneString],
    ['K7: a backslash at its end', '"k\\', notOneString],
    ['K7: an escape of another character', '"a\\b"', notOneString],
    ['K7: something behind it', '"k"x', notOneString],
    ['K7: something behind it and a space', '"k" x', notOneString],
    ['K7: a space before the semicolon', '"k" ;x', notOneString],
    ['K7: a semicolon and no parameter', '"k";', notOneString],
    ['K7: a parameter with a name in upper case', '"k";X=1', notOneString],
    ['K7: a parameter with no value behind its equals sign', '"k";x=', notOneString],
    ['K7: a parameter that is an inner list', '"k";x=(1)', notOneString],
    ['K7: two strings in one line, as fetch joins two lines', '"a", "b"', notOneString],
    ['K7: the same string twice in one line', '"a","a"', notOneString],
    ['K7: two lines', ['"a"', '"b"'], twice],
    ['K7: the same line twice', ['"a"', '"a"'], twice],
    ['K7: two unquoted lines', ['a', 'b'], twice],
    ['K7: a line and an empty one', ['"a"', ''], twice],
    ['K7: two empty lines', ['', ''], twice],
    ['K7: three lines', ['"a"', '"b"', '"c"'], twice],
    ['K7: a letter beyond ASCII', '"é"', notAscii],
    ['K7: UTF-8 read as latin-1', '"Ã©"', notAscii],
    ['K7: a letter beyond latin-1 in a parameter', '"k";x=%"Ł"', notAscii],
    ['K7: a lone surrogate', '"\ud800"', notAscii],
    ['K7: an unquoted letter beyond ASCII', 'é', notAscii],
    ['K7: a TAB inside', '"a\tb"', notAscii],
    ['K7: a TAB before a parameter', '"k";\tx', notAscii],
    ['K7: an unquoted TAB inside', 'a\tb', notAscii],
    ['K7: a DEL', '"a\x7f"', notAscii],
    ['K7: an unquoted DEL', 'a\x7f', notAscii],
    ['K7: a NUL', '"a\0"', notAscii],
    ['K7: a line break behind it', '"k"\n', notAscii],
    ['K7: a no-break space around it', '\u00a0"k"', notAscii],
    ['a line of 8,193 characters', `"k"${' '.repeat(8_190)}`, lineTooLong],
  ])('refuses %s', (_, value, outcome) => {
    expect(read(value, syntax)).toBe(outcome)
  })

  test('reads a line of 8,192 characters', () => {
    expect(read(`"k"${' '.repeat(8_189)}`, syntax)).toBe('key k')
    expect(read(`"k";x="${'y'.repeat(8_184)}"`, syntax)).toBe('key k')
  })

  // structured-headers 2.1 wants a Date to end the value, and the RFC does not. A release that mends it turns this and the fuzzing red.
  test('refuses a parameter behind one that is a Date, until the parser takes it', () => {
    expect(read('"k";x=@1;y', syntax)).toBe(notOneString)
  })

  test('gives back any key that is written as a string', () => {
    fc.assert(
      fc.property(printableKeys, parameters, outerSpace, outerSpace, (key, behind, before, after) => {
        expect(parseKey([`${before}${serializeItem(key)}${behind}${after}`], syntax)).toEqual({ key })
      }),
    )
  })

  test('keeps two keys apart', () => {
    const few = fc.string({ unit: fc.constantFrom('a', 'A', '"', '\\', ' ', ';'), minLength: 1, maxLength: 4 })
    fc.assert(
      fc.property(few, few, (a, b) => {
        const [first, second] = [a, b].map((key) => read(serializeItem(key), syntax))
        expect(first === second).toBe(a === b)
      }),
    )
  })

  test('takes any text, and gives a key that a store can keep, or a sentence, or nothing', () => {
    const lines = fc.array(fc.oneof(fc.string({ unit: 'binary' }), latin1, fc.string(), surrogates), { maxLength: 2 })
    fc.assert(
      fc.property(lines, (given) => {
        const reading = parseKey(given, syntax)
        if ('key' in reading) expect(reading.key).toMatch(/^[ -~]{1,255}$/)
        else if ('invalid' in reading) expect(reading.invalid).toMatch(/^[A-Z].{40,}\.$/)
        else expect(given).toEqual([])
      }),
      { numRuns: 1_000 },
    )
  })

  test('takes each of the 256 bytes anywhere', () => {
    for (let code = 0; code < 256; code += 1) {
      const character = String.fromCharCode(code)
      const isPrintable = code >= 0x20 && code <= 0x7e
      for (const value of [character, `"a${character}b"`, `a${character}b`, `"a"${character}`, `"a";${character}`, `a;b=${character}`]) {
        const outcome = read(value, syntax)
        const isOuterTab = code === 9 && (value.startsWith('\t') || value.endsWith('\t'))
        expect(outcome === notAscii).toBe(!isPrintable && !isOuterTab)
      }
    }
  })

  test('never repeats the value', () => {
    const secret = 'hunter2'
    const frames = [`"${secret}`, `${secret} ${secret}`, `?${secret}`, `"\\${secret}"`, `"k";${secret}="`, `${secret}é`, `a;${secret}=,`]
    for (const value of [...frames, secret.repeat(50), secret.repeat(2_000), `"k"${secret}`, `"k";x=%"%${secret}"`]) {
      const reading = parseKey([value], syntax)
      expect(reading).toHaveProperty('invalid')
      expect(JSON.stringify(reading)).not.toContain(secret)
    }
  })

  test.each<[string, string]>([
    ['spaces', ' '],
    ['TABs', '\t'],
    ['quotation marks', '"'],
    ['backslashes', '\\'],
    ['semicolons', ';'],
    ['letters', 'a'],
    ['colons', ':'],
    ['pieces with spaces', 'a '],
    ['parameters', ';a=1'],
    ['lone surrogates', '\ud800'],
  ])('refuses a megabyte of %s at once', (_, unit) => {
    const value = unit.repeat(1_000_000 / unit.length)
    for (const line of [value, `"${value}`, `"${value}"`, `a${value}`, `a;${value}`]) expect(read(line, syntax)).toBe(lineTooLong)
  })
})

describe('in the lenient syntax, without quotes', () => {
  test.each<[string, string, string?]>([
    ['a UUID with a digit first', uuid],
    ['a UUID with a letter first', 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'],
    ['a ULID', '01ARZ3NDEKTSV4RRFFQ69G5FAV'],
    ['a nanoid with a hyphen first', '-V1StGXR8_Z5jdHi6B-myT'],
    ['a nanoid with an underscore first', '_Uakgb_J5m9g-0JDMbcJq'],
    ['base64url', 'eyJhbGciOiJIUzI1NiJ9_-'],
    ['base64', 'aGVsbG8gd29ybGQ/+w=='],
    ['digits', '12345678901234567890'],
    ['a decimal', '-1.5'],
    ['an asterisk', '*'],
    ['a path', 'orders/42:confirm'],
    ['a sigil that is not its first character', 'a?1:@(%)'],
    ['braces', '{uuid}'],
    ['upper case (K8)', 'ABC'],
    ['lower case (K8)', 'abc'],
    ['all that it may have', rawAlphabet()],
    ['255 characters', 'k'.repeat(255)],
    ['spaces and TABs around it', ' \tabc\t ', 'abc'],
  ])('K3: reads %s as the same key as its quoted form', (_, value, key = value) => {
    expect(parseKey([value], 'lenient')).toEqual({ key })
    expect(parseKey([`"${key}"`], 'lenient')).toEqual({ key })
  })

  test('K3: reads any key as the same as its quoted form', () => {
    fc.assert(
      fc.property(rawKeys, outerSpace, (key, space) => {
        expect(parseKey([`${space}${key}${space}`], 'lenient')).toEqual({ key })
        expect(parseKey([serializeItem(key)], 'lenient')).toEqual({ key })
      }),
    )
  })

  test.each<[string, string, string]>([
    ['a Boolean', '?1', notRaw],
    ['a Byte Sequence', ':aGk=:', notRaw],
    ['a Date', '@1659578233', notRaw],
    ['an inner list', '("a" "b")', notRaw],
    ['an inner list of one Token', '(a)', notRaw],
    ['a Display String', '%"a"', notRaw],
    ['a percent sign', '%41', notRaw],
    ['a space inside', 'a b', notRaw],
    ['a space before the semicolon', 'abc ;x=1', notRaw],
    ['two lines in one', 'a, b', notRaw],
    ['two lines in one, without a space', 'a,b', notRaw],
    ['a comma', ',', notRaw],
    ['a quoted line and an unquoted one', 'a, "b"', notRaw],
    ['a quotation mark inside', 'a"b', notRaw],
    ['a quotation mark at its end', 'ab"', notRaw],
    ['a backslash', 'a\\b', notRaw],
    ['single quotes around double ones', `'"a"'`, notRaw],
    ['256 characters', 'k'.repeat(256), tooLong],
    ['a parameter: only a quoted key has some', 'abc;x=1', notRaw],
    ['nothing before the semicolon', ';x=1', notRaw],
    ['a semicolon at its end', 'abc;', notRaw],
    ['a semicolon alone', ';', notRaw],
    ['a key of two parts, which might be those of two keys', 'order;a', notRaw],
  ])('refuses %s', (_, value, outcome) => {
    expect(read(value, 'lenient')).toBe(outcome)
  })
})

describe('in the opaque syntax', () => {
  test.each<[string, string, string?]>([
    ['a bare key', uuid],
    ['quotes, which belong to the key', '"abc"'],
    ['semicolons', 'order;a'],
    ['spaces and commas', 'user 5, order 7'],
    ['brackets', '(a)'],
    ['a quotation mark alone', '"'],
    ['spaces and TABs around it', ' \tabc\t ', 'abc'],
    ['255 characters', 'k'.repeat(255)],
  ])('takes %s as they are', (_, value, key = value) => {
    expect(parseKey([value], 'opaque')).toEqual({ key })
  })

  test('takes any printable key as it is, and keeps two apart', () => {
    fc.assert(
      fc.property(printableKeys, (key) => {
        const reading = parseKey([key], 'opaque')
        expect(reading).toEqual(key.trim() === '' ? { invalid: expect.stringContaining('empty') } : { key: key.trim() })
      }),
    )
  })

  test.each<[string, string | string[], string]>([
    ['K7: nothing', ' ', empty],
    ['K7: 256 characters', 'k'.repeat(256), tooLong],
    ['K7: two lines', ['a', 'b'], twice],
    ['K7: a letter beyond ASCII', 'é', notAscii],
    ['K7: a TAB inside', 'a\tb', notAscii],
    ['a line of 8,193 characters', 'k'.repeat(8_193), lineTooLong],
  ])('refuses %s', (_, value, outcome) => {
    expect(read(value, 'opaque')).toBe(outcome)
  })
})

describe('in the strict syntax, without quotes', () => {
  test.each<[string, string]>([
    ['K3: a digit first', uuid],
    ['K3: a letter first, which is a Token', 'f81d4fae-7dec-11d0-a765-00a0c91e6bf6'],
    ['K3: a Token', 'abc'],
    ['K3: an underscore first', '_abc'],
    ['K3: a Token with parameters', 'abc;x=1'],
    ['K7: an Integer', '42'],
    ['K7: a Decimal', '4.2'],
    ['K7: a Boolean', '?1'],
    ['K7: a Byte Sequence', ':aGk=:'],
    ['K7: a Date', '@1659578233'],
    ['K7: an inner list', '("a")'],
    ['K7: a Display String', '%"a"'],
    ['K7: a list', 'a, b'],
    ['K7: single quotes', "'abc'"],
    ['K7: a semicolon first', ';x=1'],
    ['K7: a comma first, as fetch joins an empty line and another', ', "a"'],
    ['K7: a backslash first', '\\"a"'],
  ])('refuses %s, and says to quote it', (_, value) => {
    expect(read(value, 'strict')).toBe(notQuoted)
    expect(parseKey([value], 'strict')).toEqual({ invalid: expect.stringContaining('put it in double quotes') })
  })
})

const latin1 = fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('latin1'))
const surrogates = fc.string({ unit: fc.constantFrom('\ud83d', '\ude00', 'a', '"') })
const outerSpace = fc.string({ unit: fc.constantFrom(' ', '\t'), maxLength: 3 })
const parameters = fc.constantFrom('', '', ';x', ';x=1', '; x="a;b"', ';x=?0;y=tok;x="\\""')
const printableKeys = fc.string({ unit: fc.constantFrom(...allPrintable()), minLength: 1, maxLength: maxKeyLength, size: 'max' })
const rawKeys = fc
  .string({ unit: fc.constantFrom(...rawAlphabet()), minLength: 1, maxLength: maxKeyLength })
  .filter((key) => !'?:@(%'.includes(key.charAt(0)))

function allPrintable(): string {
  return Array.from({ length: 0x5f }, (_, index) => String.fromCharCode(0x20 + index)).join('')
}

/** Begins with an exclamation mark, which is nobody's sigil. */
function rawAlphabet(): string {
  return [...allPrintable()].filter((character) => !' ",;\\'.includes(character)).join('')
}
