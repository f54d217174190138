export type Element = string | number | null

/**
 * Arrays as Postgres writes them, made here because no two drivers send arrays alike, and all of them send a text. The statement
 * casts it: `$1::text::uuid[]`.
 */
export function arrayLiteral(elements: readonly Element[]): string
export function arrayLiteral<Item>(items: readonly Item[], of: (item: Item) => Element, write: (element: string | number) => string): string
export function arrayLiteral<Item>(items: readonly Item[], of = (item: Item) => item as Element, write = quoted): string {
  // Not one text after the other: each would be an object of its own until they are sent.
  const elements: string[] = new Array(items.length)
  // Tenants, scopes and policies repeat: an element that is the same as the one before is not written anew.
  let last: Element | undefined
  let element = ''
  let hasAny = false
  for (let index = 0; index < items.length; index += 1) {
    const value = of(items[index] as Item)
    if (value !== last || index === 0) {
      last = value
      element = value === null ? 'NULL' : write(value)
      hasAny ||= value !== null
    }
    elements[index] = element
  }
  // Where other arrays of a statement are longer, Postgres goes on with nulls: it need not read any.
  return hasAny ? `{${elements.join(',')}}` : '{}'
}

/** How elements of that type are written. Only in texts is there anything that could be taken for something else. */
export function writerOf(type: string): (element: string | number) => string {
  return type === 'text' ? quoted : String
}

function quoted(element: string | number): string {
  return typeof element === 'string' && !plain.test(element) ? `"${element.replaceAll(special, '\\$&')}"` : String(element)
}

/** Most keys need no quotes. A word that reads NULL does. */
const plain = /^(?!null$)[\w.-]+$/i
const special = /["\\]/g
