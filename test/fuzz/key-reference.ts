import type { KeySyntax } from '../../src/http/parse-key.js'

/** The key, `null` where there is none, `false` for what is to be refused. */
export type ReferenceReading = string | null | false

/**
 * The rules of a key once more, as one grammar: strings and parameters straight from RFC 9651's ABNF, and ours for keys without quotes.
 * Nothing in it is shared with the parser that it judges, nor with the package that one builds on.
 */
export function referenceReading(lines: readonly string[], syntax: KeySyntax): ReferenceReading {
  if (lines.length === 0) return null
  const [line = ''] = lines
  if (lines.length > 1 || line.length > 8_192) return false
  const { quoted, raw, behind } = (syntax === 'strict' ? strictLine : lenientLine).exec(line)?.groups ?? {}
  const key = quoted?.slice(1, -1).replace(/\\(.)/g, '$1') ?? raw
  if (key === undefined || key.length < 1 || key.length > 255) return false
  return hasReadableTexts(behind ?? '') && key
}

const letter = 'A-Za-z'
const base64 = '[A-Za-z0-9+/]'
const string = `"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"`
const displayed = '(?:[ !#$&-~]|%[0-9a-f]{2})*'
const bareItem = [
  '-?[0-9]{1,12}\\.[0-9]{1,3}',
  '-?[0-9]{1,15}',
  string,
  `[${letter}*][${letter}0-9:/!#$%&'*+\\-.^_\`|~]*`,
  // With or without its padding.
  `:(?:${base64}{4})*(?:${base64}{2}(?:==)?|${base64}{3}=?)?:`,
  '\\?[01]',
  `%"${displayed}"`,
].join('|')
const name = '; *[a-z*][a-z0-9_.*-]*'
// structured-headers 2.1 reads a Date as the last parameter only. The RFC does not ask for that.
const parameters = `(?:${name}(?:=(?:${bareItem}))?)*(?:${name}=@-?[0-9]{1,15})?`

const strictLine = new RegExp(`^[ \\t]*(?<quoted>${string})(?<behind>${parameters})[ \\t]*$`)
const lenientLine = new RegExp(
  `^[ \\t]*(?:(?<quoted>${string})(?<behind>${parameters})|(?<raw>[!#$&')*+./0-9<=>A-Z[\\]^_\`a-z{|}~-][!#-+./0-9:<=>?@A-Z[\\]^_\`a-z{|}~-]*))[ \\t]*$`,
)

/** Display Strings are UTF-8 in percent signs, as in an address. */
function hasReadableTexts(behind: string): boolean {
  try {
    for (const { groups } of behind.matchAll(parameter)) decodeURIComponent(groups?.displayed ?? '')
    return true
  } catch {
    return false
  }
}

const parameter = new RegExp(`${name}(?:=(?:%"(?<displayed>${displayed})"|${bareItem}|@-?[0-9]+))?`, 'gy')
