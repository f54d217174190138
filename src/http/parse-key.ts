import { parseItem } from 'structured-headers'
import { maxKeyLength } from '../core/key.js'

/**
 * `'strict'` takes a quoted string, as the IETF draft requires. `'lenient'` also takes a key without quotes, which most clients send.
 * `'opaque'` takes the value as it is, quotes included, as Stripe does.
 */
export type KeySyntax = 'lenient' | 'strict' | 'opaque'

/** `invalid` tells the client what is wrong and what to send. It never repeats the value, which may be hostile or secret. */
export type KeyReading = { readonly key: string } | { readonly missing: true } | { readonly invalid: string }

/** The usual limit of web servers for one header line. A key is never that long; its parameters have no other limit. */
const maxLineLength = 8_192

/** Reads the key from the header's field lines. It never throws. */
export function parseKey(lines: readonly string[], syntax: KeySyntax): KeyReading {
  const [line] = lines
  if (line === undefined) return { missing: true }
  if (lines.length > 1) return { invalid: 'The key was sent more than once: send exactly one, in one header line.' }
  if (line.length > maxLineLength) return { invalid: `The header is longer than ${maxLineLength} characters. ${rightLength}` }
  const value = withoutOuterSpace(line)
  if (!printable.test(value)) {
    return { invalid: 'The header has characters that are not printable ASCII: make the key of letters, digits and hyphens.' }
  }
  if (value === '' || syntax === 'opaque') return ofRightLength(value)
  if (value.startsWith('"')) return quotedKey(value)
  return syntax === 'strict' ? { invalid: notQuoted } : rawKey(value)
}

/** The characters of a structured field; a TAB may only separate the members of a list. */
const printable = /^[ -~]*$/

function quotedKey(value: string): KeyReading {
  const key = stringItem(value)
  return key === undefined ? { invalid: notOneString } : ofRightLength(key)
}

/**
 * By RFC 9651 one unquoted UUID in three is a Token and the others are errors, so this is our own rule. It refuses other types of structured
 * fields; commas, since fetch-style servers join two field lines with one; and semicolons, since a client that sends `order;a` and `order;b`
 * means two keys, not one with parameters.
 */
function rawKey(value: string): KeyReading {
  return rawForm.test(value) ? ofRightLength(value) : { invalid: notRaw }
}

/** Visible ASCII without `"`, `,`, `;` and `\`. The first character does not start a Boolean, Byte Sequence, Date, list or Display String. */
const rawForm = /^(?![?:@(%])[!#-+\--:<-[\]-~]+$/

function ofRightLength(key: string): KeyReading {
  if (key === '') return { invalid: `The key is empty. ${rightLength}` }
  if (key.length > maxKeyLength) return { invalid: `The key is longer than ${maxKeyLength} characters. ${rightLength}` }
  return { key }
}

/** The string, if the value is an Item with a String. Parameters are ignored, as the draft defines none. */
function stringItem(value: string): string | undefined {
  try {
    const [item] = parseItem(value)
    return typeof item === 'string' ? item : undefined
  } catch {
    return undefined
  }
}

/** OWS: spaces and TABs only. A loop, because a regular expression would retry each run of spaces from every position. */
function withoutOuterSpace(line: string): string {
  let start = 0
  let end = line.length
  while (start < end && isSpace(line[start])) start += 1
  while (end > start && isSpace(line[end - 1])) end -= 1
  return line.slice(start, end)
}

const isSpace = (character: string | undefined) => character === ' ' || character === '\t'

const rightLength = `Send 1 to ${maxKeyLength} characters, such as a new UUID for each operation.`
const notQuoted =
  'The key is not a quoted string: put it in double quotes, as structured fields (RFC 9651) ask for, and a backslash before each ' +
  'double quote and backslash in it.'
const notOneString =
  'The header is not one quoted string: end the key with a double quote, put a backslash before each double quote and backslash in ' +
  'it and before nothing else, and send nothing behind it but parameters.'
const notRaw =
  'The key needs double quotes around it: without them it has no space, comma, semicolon, double quote or backslash, and does not begin ' +
  'with one of ? : @ ( and %.'
