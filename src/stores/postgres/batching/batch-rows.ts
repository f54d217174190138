import type { Element } from './array-literal.js'
import { SentArray } from './sent-array.js'

export type Value = Element | Uint8Array

/** What each item of a batch brings along: a column of the statement, by name. */
export type Columns<Item> = Readonly<Record<string, { readonly type: string; of(item: Item): Value }>>

/** What each column is in SQL. */
export function byColumn<Name extends string>(names: readonly Name[], sql: (name: Name, index: number) => string): Record<Name, string> {
  return Object.fromEntries(names.map((name, index) => [name, sql(name, index)])) as Record<Name, string>
}

export interface BatchRows<Item, Name extends string> {
  /** What the rows come from, in SQL: an item of a `from`. */
  readonly source: string
  /** The value that a row has for each column, in SQL. */
  readonly value: Readonly<Record<Name, string>>
  /** How many parameters there are. */
  readonly parameters: number
  valuesOf(items: readonly Item[]): (SentArray | Uint8Array)[]
}

/**
 * The rows of a batch as the first parameters of its statement: each column is an array. Bytes go as one piece, with the place and the size of
 * each row's: in an array of texts they would be twice as long, in hex, and the server would read them twice.
 */
export function batchRows<Item, Name extends string>(
  name: string,
  columns: Readonly<Record<Name, Columns<Item>[string]>>,
): BatchRows<Item, Name> {
  const arrays: { readonly name: string; readonly parameter: string }[] = []
  const value: Record<string, string> = {}
  const writers: ((items: readonly Item[], values: (SentArray | Uint8Array)[]) => void)[] = []
  let parameters = 0
  const array = (column: string, type: string) => {
    parameters += 1
    arrays.push({ name: column, parameter: SentArray.parameter(parameters, type) })
  }
  for (const [column, { type, of }] of Object.entries<Columns<Item>[string]>(columns)) {
    if (type === 'bytea') {
      parameters += 1
      value[column] = `substr($${parameters}::bytea, ${name}.${column}_at, ${name}.${column}_size)`
      array(`${column}_at`, 'integer')
      array(`${column}_size`, 'integer')
      writers.push((items, values) => void values.push(...packed(items, of as (item: Item) => Uint8Array | null)))
    } else {
      value[column] = `${name}.${column}`
      array(column, type)
      writers.push((items, values) => void values.push(new SentArray(type, items, of as (item: Item) => Element)))
    }
  }
  const names = arrays.map((each) => each.name)
  // In a query of its own that is not pulled up, so that the planner does not see how many rows there are. For a batch of few it would find the
  // plan for just that many better than one for any number, and plan it anew each time, which takes longer than the statement.
  const sent = `select ${arrays.map((each) => `${each.parameter} as ${each.name}`).join(', ')} offset 0`
  return {
    source: `(${sent}) as sent, unnest(${names.map((each) => `sent.${each}`).join(', ')}) as ${name} (${names.join(', ')})`,
    value: value as Record<Name, string>,
    parameters,
    valuesOf(items) {
      const values: (SentArray | Uint8Array)[] = []
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
function packed<Item>(items: readonly Item[], of: (item: Item) => Uint8Array | null): [Uint8Array, SentArray, SentArray] {
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
  return [Buffer.concat(pieces), new SentArray('integer', places, itself), new SentArray('integer', sizes, itself)]
}

const itself = (element: Element) => element
