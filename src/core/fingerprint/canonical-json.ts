import canonicalize from 'canonicalize'

/**
 * RFC 8785 for a value that `JSON.parse` made. It asks for what `JSON.stringify` writes, with members in the order of their names: so they
 * are put in order, and the platform writes them. The library is for what that cannot do: names that are numbers, which objects keep in
 * an order of their own, and halves of surrogate pairs, which it refuses. For all else it takes several times as long.
 */
export function canonicalJson(value: unknown): string | undefined {
  const ordered = inOrder(value)
  const json = ordered === odd ? undefined : JSON.stringify(ordered)
  return json === undefined || json.includes('\\ud') ? canonicalize(value) : json
}

const odd = Symbol('has names that are numbers')

/** The same with all members in the order of their names, or `odd`. What is in order already is not copied. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Array.isArray(value) ? elementsInOrder(value) : membersInOrder(value as Record<string, unknown>)
}

function elementsInOrder(elements: readonly unknown[]): unknown {
  let copy: unknown[] | undefined
  for (let index = 0; index < elements.length; index += 1) {
    const ordered = inOrder(elements[index])
    if (ordered === odd) return odd
    if (ordered === elements[index]) continue
    copy ??= [...elements]
    copy[index] = ordered
  }
  return copy ?? elements
}

function membersInOrder(members: Readonly<Record<string, unknown>>): unknown {
  const names = Object.keys(members)
  let isInOrder = true
  /** Members that are not as they were. */
  let changed: Map<string, unknown> | undefined
  for (let index = 0; index < names.length; index += 1) {
    const name = names[index] as string
    if (isDigit(name.charCodeAt(0))) return odd
    // By UTF-16 code units, as the RFC has it.
    if (index > 0 && name < (names[index - 1] as string)) isInOrder = false
    const ordered = inOrder(members[name])
    if (ordered === odd) return odd
    if (ordered === members[name]) continue
    changed ??= new Map()
    changed.set(name, ordered)
  }
  if (isInOrder && !changed) return members
  // Without a prototype, so that a member may be called __proto__.
  const copy: Record<string, unknown> = Object.create(null)
  for (const name of names.sort()) copy[name] = changed?.get(name) ?? members[name]
  return copy
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57
}
