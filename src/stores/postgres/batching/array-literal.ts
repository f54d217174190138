type Element = string | number | null

/**
 * Arrays as Postgres writes them, made here because no two drivers send arrays alike, and all of them send a text. The statement
 * casts it: `$1::text::uuid[]`.
 */
export function arrayLiteral(values: readonly Element[]): string
export function arrayLiteral<Item>(items: readonly Item[], of: (item: Item) => Element): string
export function arrayLiteral<Item>(items: readonly Item[], of = (item: Item) => item as Element): string {
  let literal = '{'
  // Tenants, scopes and policies repeat: an element that is the same as the one before is not written anew.
  let last: Element | undefined
  let element = ''
  for (let index = 0; index < items.length; index += 1) {
    const value = of(items[index] as Item)
    if (value !== last || index === 0) {
      last = value
      element = elementOf(value)
    }
    literal += index === 0 ? element : `,${element}`
  }
  return `${literal}}`
}

function elementOf(value: Element): string {
  if (value === null) return 'NULL'
  if (typeof value === 'number') return String(value)
  return plain.test(value) ? value : `"${value.replaceAll(special, '\\$&')}"`
}

/** UUIDs and most keys need no quotes. A word that reads NULL does. */
const plain = /^(?!null$)[\w.-]+$/i
const special = /["\\]/g
