/** What a JSON text says, with nothing lost: members that come twice are there twice, and numbers are decimals. */
export interface LosslessJson {
  /** The same for two texts exactly if they say the same. */
  readonly meaning: string
  /** Whether no object names a member twice. */
  readonly hasUniqueNames: boolean
  /** Whether every number comes back from `JSON.parse` and `JSON.stringify` as the same decimal. */
  readonly hasExactNumbers: boolean
  /** Whether every text in it has a UTF-8 form. */
  readonly isWellFormed: boolean
  readonly depth: number
  readonly longestNumber: number
}

/** RFC 8259 by hand, as a yardstick for code that builds on `JSON.parse`. Null for what is not JSON. */
export function readLosslessJson(text: string): LosslessJson | null {
  const found = { hasUniqueNames: true, hasExactNumbers: true, isWellFormed: true, depth: 0, longestNumber: 0 }
  let at = 0

  /** Takes what matches here, or ends the reading. */
  function take(pattern: RegExp): string {
    pattern.lastIndex = at
    const [match] = pattern.exec(text) ?? []
    if (match === undefined) throw notJson
    at += match.length
    return match
  }
  function skip(character: string): boolean {
    take(space)
    if (text[at] !== character) return false
    at += 1
    return true
  }
  function must(character: string): void {
    if (!skip(character)) throw notJson
  }
  function readString(): string {
    const content = take(string).slice(1, -1).replace(escapes, unescaped)
    if (Buffer.from(content).toString() !== content) found.isWellFormed = false
    return content
  }
  function readNumber(): string {
    const token = take(number)
    const value = JSON.stringify(JSON.parse(token)) as string
    if (value === 'null' || decimal(value) !== decimal(token)) found.hasExactNumbers = false
    found.longestNumber = Math.max(found.longestNumber, token.length)
    return decimal(token)
  }
  function readName(): string {
    take(space)
    const name = readString()
    must(':')
    return name
  }
  function meaningOf({ end, items }: Container): string {
    if (end === ']') return `[${items.map(([, value]) => value)}]`
    if (new Set(items.map(([name]) => name)).size < items.length) found.hasUniqueNames = false
    // The order of members says nothing, except between two of the same name: sorting is stable.
    const sorted = items.sort(([a], [b]) => (a < b ? -1 : Number(a > b)))
    return `{${sorted.map(([name, value]) => `${JSON.stringify(name)}:${value}`)}}`
  }
  const open: Container[] = []
  /** What stands here, if it ends here as well; else it is open now, and the name of its first member is read. */
  function beginValue(): string | undefined {
    take(space)
    const first = text[at] ?? ''
    if (first === '"') return JSON.stringify(readString())
    if (first !== '[' && first !== '{') return /[-\d]/.test(first) ? readNumber() : take(word)
    at += 1
    const container: Container = { end: first === '[' ? ']' : '}', name: '', items: [] }
    found.depth = Math.max(found.depth, open.push(container))
    if (skip(container.end)) return meaningOf(open.pop() as Container)
    if (container.end === '}') container.name = readName()
    return undefined
  }
  /** No recursion: bodies may be nested deeper than a stack is. */
  function readValue(): string {
    let value = beginValue()
    for (let container = open.at(-1); container; container = open.at(-1)) {
      if (value !== undefined) {
        container.items.push([container.name, value])
        if (!skip(',')) {
          must(container.end)
          value = meaningOf(open.pop() as Container)
          continue
        }
        if (container.end === '}') container.name = readName()
      }
      value = beginValue()
    }
    return value as string
  }

  try {
    const meaning = readValue()
    take(space)
    return at === text.length ? { ...found, meaning } : null
  } catch (error) {
    if (error === notJson) return null
    throw error
  }
}

interface Container {
  readonly end: ']' | '}'
  /** Of the member that is being read. */
  name: string
  readonly items: [name: string, value: string][]
}

const notJson = new Error('not JSON')
const space = /[ \n\r\t]*/y
const word = /true|false|null/y
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?/y
const string = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\dA-Fa-f]{4}))*"/y
const escapes = /\\(u(.{4})|.)/g

const shortEscapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

function unescaped(_: string, what: string, hex: string | undefined): string {
  return hex === undefined ? (shortEscapes[what] ?? what) : String.fromCharCode(Number.parseInt(hex, 16))
}

/** One spelling for each decimal number: an integer that does not end with a zero, and a power of ten. */
function decimal(token: string): string {
  const [mantissa = '', exponent = '0'] = token.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  const integer = String(BigInt(whole + fraction))
  const digits = integer.replace(/0+$/, '')
  const power = BigInt(exponent) + BigInt(integer.length - digits.length - fraction.length)
  return digits === '' ? '0' : `${digits}e${power}`
}
