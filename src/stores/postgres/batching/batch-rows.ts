import { arrayLiteral, type Element, writerOf } from './array-literal.js'

export type Value = Element | Uint8Array

/** What each item of a batch brings along: a column of the statement, by name. */
export type Columns<Item> = Readonly<Record<string, { readonly type: string; of(item: Item): Value }>>

export interface BatchRows<Item> {
  /** The query that gives the rows. */
  readonly rows: string
  /** How many parameters it has. */
  readonly parameters: number
  valuesOf(items: readonly Item[]): (string | Uint8Array)[]
}

/**
 * The rows of a batch as the first parameters of its statement: each column is an array. Bytes go as one piece, with the place and the size of
 * each row's: in an array they would be twice as long, in hex, and the server would read them twice.
 */
export function batchRows<Item>(columns: Columns<Item>, more: string): BatchRows<Item> {
  const arrays: string[] = []
  const names: string[] = []
  const selected: string[] = []
  const writers: ((items: readonly Item[], values: (string | Uint8Array)[]) => void)[] = []
  let parameters = 0
  const array = (name: string, type: string) => {
    parameters += 1
    // In a query of its own, so that the planner does not see how many rows there are. For a batch of few it would find the plan for just that
    // many better than one for any number, and plan it anew each time, which takes longer than the statement.
    arrays.push(`(select $${parameters}::text::${type}[])`)
    names.push(name)
  }
  for (const [name, { type, of }] of Object.entries(columns)) {
    if (type === 'bytea') {
      parameters += 1
      selected.push(`substr($${parameters}::bytea, ${name}_at, ${name}_size) as ${name}`)
      array(`${name}_at`, 'integer')
      array(`${name}_size`, 'integer')
      writers.push((items, values) => void values.push(...packed(items, of as (item: Item) => Uint8Array | null)))
    } else {
      selected.push(name)
      array(name, type)
      const write = writerOf(type)
      writers.push((items, values) => void values.push(arrayLiteral(items, of as (item: Item) => Element, write)))
    }
  }
  return {
    rows: `select ${selected.join(', ')} from unnest(${arrays.join(', ')}) as sent (${names.join(', ')})${more}`,
    parameters,
    valuesOf(items) {
      const values: (string | Uint8Array)[] = []
      for (const write of writers) write(items, values)
      return values
    },
  }
}

/**
 * More than this and each row is sent alone: a statement has an end (1 GB), and before that a driver that writes bytes as text has one, and memory.
 */
const mostBytes = 64 * 1024 * 1024

/** Null is no place and no size, of which `substr` makes null again. */
function packed<Item>(items: readonly Item[], of: (item: Item) => Uint8Array | null): [Uint8Array, string, string] {
  const pieces: Uint8Array[] = []
  const places: Element[] = []
  const sizes: Element[] = []
  let place = 1
  for (const item of items) {
    const bytes = of(item)
    places.push(bytes === null ? null : place)
    sizes.push(bytes === null ? null : bytes.length)
    if (bytes === null) continue
    pieces.push(bytes)
    place += bytes.length
    if (place > mostBytes) throw new RangeError('These rows have more bytes than go with one statement.')
  }
  return [Buffer.concat(pieces), arrayLiteral(places), arrayLiteral(sizes)]
}
