import canonicalize from 'canonicalize'
import { readLosslessJson } from './lossless-json.js'

/** What stands for a body that is called JSON, by a parser and the RFC's own library: the yardstick for the scan that replaces both. */
export function parsedCanonical(body: string | Uint8Array, pointers: readonly string[] = []): Buffer {
  const bytes = Buffer.from(body as Uint8Array)
  if (bytes.length === 0) return Buffer.from('body:none:')
  // A text without a UTF-8 form.
  if (typeof body === 'string' && bytes.toString() !== body) return Buffer.concat([Buffer.from('body:text:'), Buffer.from(body, 'utf16le')])
  const json = canonicalText(bytes, pointers)
  return json === null ? Buffer.concat([Buffer.from('body:bytes:'), bytes]) : Buffer.from(`body:json:${json}`)
}

function canonicalText(bytes: Uint8Array, pointers: readonly string[]): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    const value: unknown = parsed(text)
    const { hasUniqueNames, hasExactNumbers, depth, longestNumber } = readLosslessJson(text) ?? { depth: Infinity, longestNumber: 0 }
    if (!hasUniqueNames || !hasExactNumbers || depth > 256 || longestNumber > 400) return null
    for (const pointer of pointers) removeMember(value, pointer)
    return canonicalize(value) ?? null
  } catch {
    // Not UTF-8, not JSON, or half of a surrogate pair.
    return null
  }
}

/**
 * `JSON.parse()` without a fault of V8 (Node 24, 26): a name with an escape is taken for one that ends with a backslash, if an object with that
 * one was parsed before. Here such names are written in hexadecimal while they are parsed.
 */
function parsed(text: string): unknown {
  const marked = text.replace(/"((?:[^"\\]|\\.)*)"(\s*:)?/g, (all, content: string, colon?: string) =>
    colon && content.includes('\\') ? `"${mark}${Buffer.from(JSON.parse(`"${content}"`), 'utf16le').toString('hex')}"${colon}` : all,
  )
  if (marked === text) return JSON.parse(text)
  return JSON.parse(marked, (_name, value) => {
    if (!isContainer(value) || Array.isArray(value)) return value
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [nameOf(name), member]))
  })
}

const mark = 'in hexadecimal: '

const nameOf = (name: string) => (name.startsWith(mark) ? Buffer.from(name.slice(mark.length), 'hex').toString('utf16le') : name)

function removeMember(value: unknown, pointer: string): void {
  const path = pointer.split('/').slice(1)
  const names = path.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  const name = names.pop() as string
  const parent = names.reduce<unknown>((at, step) => (isContainer(at) && Object.hasOwn(at, step) ? at[step] : undefined), value)
  if (isContainer(parent) && !Array.isArray(parent)) delete parent[name]
}

const isContainer = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
