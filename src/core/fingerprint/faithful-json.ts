/**
 * Does `JSON.parse` keep everything that this text says?
 *
 * It does not when an object names a member twice (the last one wins) or when a number has no exact double
 * (9007199254740993 becomes …992): two texts that differ would come out equal. The text must be valid JSON; nesting
 * deeper than `maxDepth` counts as unfaithful, because canonicalisation is recursive.
 */
export function isFaithfulJson(text: string, maxDepth = 256): boolean {
  /** The member names of each object that is open; an array's stay empty. */
  const open: Set<string>[] = []
  for (const [token, string, colon] of text.matchAll(tokens)) {
    if (string !== undefined) {
      if (colon !== undefined && !addName(open.at(-1), string)) return false
    } else if (token === '{' || token === '[') {
      if (open.push(new Set()) > maxDepth) return false
    } else if (token === '}' || token === ']') {
      open.pop()
    } else if (!isExact(token)) {
      return false
    }
  }
  return true
}

/** Strings (a colon behind one makes it a member's name), numbers and brackets. The rest of valid JSON cannot go wrong. */
const tokens = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|-?\d[-+.\deE]*|[[\]{}]/g

/** False if the object has that name already, in whatever spelling. */
function addName(names: Set<string> | undefined, string: string): boolean {
  const name = JSON.parse(string) as string
  const isNew = !names?.has(name)
  names?.add(name)
  return isNew
}

/** Decimals of up to 15 digits all survive the way through a double. */
const shortDecimal = /^-?(?=[\d.]{1,15}$)\d+(?:\.\d+)?$/

/** No double needs more characters than this in plain notation; longer ones are not worth looking at. */
const longestNumber = 400

function isExact(token: string): boolean {
  if (shortDecimal.test(token)) return true
  if (token.length > longestNumber) return false
  const value = Number(token)
  return Number.isFinite(value) && decimal(token) === decimal(String(value))
}

/** One spelling for each decimal number: sign, digits without outer zeros, power of ten. */
function decimal(token: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(token) ?? []
  const digits = (whole + fraction).replace(/^0+/, '')
  const trimmed = digits.replace(/0+$/, '')
  if (trimmed === '') return '0'
  return `${sign}${trimmed}e${Number(exponent) - fraction.length + digits.length - trimmed.length}`
}
