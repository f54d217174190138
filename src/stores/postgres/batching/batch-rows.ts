import { arrayLiteral } from './array-literal.js'

type Value = string | number | Uint8Array | null

export interface BatchRows {
  /** The query that gives the rows. */
  readonly rows: string
  /** How many parameters it has. */
  readonly parameters: number
  valuesOf<Row>(rows: readonly Row[], of: (row: Row, column: number) => Value): (string | Uint8Array)[]
}

/**
 * The rows of a batch as the first parameters of its statement: each column is an array. Bytes go as one piece, with the place and the size of
 * each row's: in an array they would be twice as long, in hex, and the server would read them twice.
 */
export function batchRows(types: Readonly<Record<string, string>>, more: string): BatchRows {
  const arrays: string[] = []
  const names: string[] = []
  const selected: string[] = []
  let parameters = 0
  const array = (name: string, type: string) => {
    parameters += 1
    arrays.push(`$${parameters}::text::${type}[]`)
    names.push(name)
  }
  for (const [name, type] of Object.entries(types)) {
    if (type === 'bytea') {
      parameters += 1
      selected.push(`substr($${parameters}::bytea, ${name}_at, ${name}_size) as ${name}`)
      array(`${name}_at`, 'integer')
      array(`${name}_size`, 'integer')
    } else {
      selected.push(name)
      array(name, type)
    }
  }
  const columns = Object.values(types)
  return {
    rows: `select ${selected.join(', ')} from unnest(${arrays.join(', ')}) as sent (${names.join(', ')})${more}`,
    parameters,
    valuesOf: (rows, of) =>
      columns.flatMap((type, column) =>
        type === 'bytea' ? packed(rows, of, column) : [arrayLiteral(rows, (row) => of(row, column) as string | number | null)],
      ),
  }
}

/**
 * More than this and each row is sent alone: a statement has an end (1 GB), and before that a driver that writes bytes as text has one, and memory.
 */
const mostBytes = 64 * 1024 * 1024

/** Null is no place and no size, of which `substr` makes null again. */
function packed<Row>(rows: readonly Row[], of: (row: Row, column: number) => Value, column: number): [Uint8Array, string, string] {
  const pieces: Uint8Array[] = []
  const places: (number | null)[] = []
  const sizes: (number | null)[] = []
  let place = 1
  for (const row of rows) {
    const bytes = of(row, column) as Uint8Array | null
    places.push(bytes === null ? null : place)
    sizes.push(bytes === null ? null : bytes.length)
    if (bytes === null) continue
    pieces.push(bytes)
    place += bytes.length
    if (place > mostBytes) throw new RangeError('These rows have more bytes than go with one statement.')
  }
  return [Buffer.concat(pieces), arrayLiteral(places), arrayLiteral(sizes)]
}
