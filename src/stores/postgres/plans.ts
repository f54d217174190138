import { binaryCasts, SentArray } from './batching/sent-array.js'
import type { Connection, Queryable, Row, SentValue, StatementOptions } from './connections/connection.js'

/** Four times as large is another size. From the last one on, 8 MiB, every plan goes by the primary key. */
const sizes = 6
const smallestBytes = 8_192

/** Runs statements as `Queryable` does, with arrays among their values. */
export interface Statements extends Queryable {
  query(text: string, values: readonly (SentValue | SentArray)[], options?: StatementOptions): Promise<readonly Row[]>
}

/**
 * Postgres keeps the plan of a prepared statement, and in a table that is almost empty the best plan is to read all of it. A table that
 * has grown would be read in whole for each request, until it is analysed. So each statement carries the size of the table in a
 * comment: when that has changed it is another statement, with a plan of its own. Claims and takes tell the size, so a process whose own requests
 * are few learns of what the others have written.
 */
export function plannedBySize<Tx>(connection: Connection<Tx>): Connection<Tx> & Statements {
  const plans = new Plans()
  const marking = (db: Queryable): Statements['query'] => {
    return async (text, values, options) => {
      const often = options?.often === true
      const hasArrays = values.some((value) => value instanceof SentArray)
      const isBinary = hasArrays && often && db.sendsBinary === true
      const sent = hasArrays ? values.map((value) => sentAs(value, isBinary)) : (values as readonly SentValue[])
      if (!often) return db.query(text, sent, options)
      const rows = await db.query(plans.mark(text, isBinary), sent, options)
      plans.learn(rows[0])
      return rows
    }
  }
  return {
    endsInTime: connection.endsInTime,
    nests: connection.nests,
    query: marking(connection),
    within(tx) {
      const db = connection.within(tx)
      return { endsInTime: db.endsInTime, mark: db.mark, session: db.session, query: marking(db) }
    },
    transaction: (work, times) => connection.transaction(work, times),
    script: (tx, text) => connection.script(tx, text),
  }
}

function sentAs(value: SentValue | SentArray, isBinary: boolean): SentValue {
  if (!(value instanceof SentArray)) return value
  return isBinary ? value.binary() : value.text()
}

/** The column in which a statement tells the size of its table. */
export function tableBytes(table: string): string {
  return `pg_relation_size('${table.replaceAll("'", "''")}')::float8 as bytes`
}

class Plans {
  #size = 0
  readonly #marked = { text: bySize(), binary: bySize() }

  mark(text: string, isBinary: boolean): string {
    const known = this.#marked[isBinary ? 'binary' : 'text'][this.#size] as Map<string, string>
    let marked = known.get(text)
    if (marked === undefined) {
      marked = `${isBinary ? binaryCasts(text) : text} /* ${this.#size} */`
      known.set(text, marked)
    }
    return marked
  }

  /** Smaller, too: a table that was emptied is planned for as such, and will grow again. */
  learn(row: Row | undefined): void {
    const bytes: unknown = row?.bytes
    if (typeof bytes !== 'number') return
    this.#size = bytes < smallestBytes ? 0 : Math.min(sizes, 1 + Math.floor(Math.log2(bytes / smallestBytes) / 2))
  }
}

function bySize(): readonly Map<string, string>[] {
  return Array.from({ length: sizes + 1 }, () => new Map<string, string>())
}
