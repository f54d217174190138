import type { Field } from './fields.js'
import { oneTable } from './one-table.js'
import { twoTables } from './two-tables.js'

export interface Layout {
  name: string
  fillFactor: number
  /** Worth the minutes that 10 M rows take. */
  contender: boolean
  /** The columns that find a key at the claim, in index order. */
  lookup: readonly Field[]
  claimFields: readonly Field[]
  finishFields: readonly Field[]
  /** Statements for one copy of the layout, whose tables are `copy` or begin with it. */
  on(copy: string): LayoutCopy
}

export interface LayoutCopy {
  /** All tables, the one with the finished rows last. */
  tables: readonly string[]
  create: string
  claim: string
  finish: string
  /** Inserts finished rows number $1 to $2 with the answer $3, $4 and the fingerprint $5. */
  fill: string
  /** Fill factor for `fill`: leaves as many finished rows on a page as claim, then finish, would. */
  fillFactorOfFill(bodyBytes: number): number
  countFinished: string
}

export const digest = (fillFactor: number, contender = false) =>
  oneTable({ name: `digest ff${fillFactor}`, key: 'digest', fillFactor, indexes: ['btree (reap_after)'], contender })

export const layouts: readonly Layout[] = [
  oneTable({
    name: 'serial',
    key: 'serial',
    fillFactor: 100,
    indexes: ["btree (expires_at) where state in ('complete', 'failed')", "btree (locked_until) where state = 'processing'"],
    contender: true,
  }),
  oneTable({ name: 'text ff30', key: 'text', fillFactor: 30, indexes: ['btree (reap_after)'], contender: true }),
  digest(100),
  digest(50),
  digest(30, true),
  digest(25),
  digest(20),
  oneTable({ name: 'digest ff25 brin', key: 'digest', fillFactor: 25, indexes: ['brin (reap_after)'], contender: true }),
  oneTable({ name: 'digest ff25 bare', key: 'digest', fillFactor: 25, indexes: [], contender: false }),
  twoTables({ name: 'split', contender: true }),
]
