import { OncekeyError } from '../../../core/errors.js'
import type { AdvanceResult } from '../../../core/store.js'
import type { Row } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { thisKey } from './free-key.js'

/** True in the transaction that set this mark at its beginning. An empty mark is that of a transaction that others began: nothing is checked. */
export function isMarked(mark: string): string {
  return `(${mark}::text = '' or coalesce(current_setting('oncekey.transaction', true), '') = ${mark})`
}

/**
 * Why a holder's write changed nothing. `repeated` is SQL for what this very write would have left: then its acknowledgement was lost. The
 * parameters are those of the lease, then the mark.
 */
export function standingOf({ keys }: Tables, lease: string, mark: string, repeated: string): string {
  return `select ${isMarked(mark)} as marked, key.state = 'processing' as held, ${repeated} as repeated
    from (select) as always left join ${keys} as key on ${thisKey} and ${lease}`
}

export function readStanding(rows: readonly Row[]): Exclude<AdvanceResult, 'done'> | 'locked' {
  const [{ marked, held, repeated }] = rows as [Row]
  if (!marked) throw transactionEnded()
  if (repeated) return 'repeated'
  return held ? 'locked' : 'lost'
}

const transactionEnded = () =>
  new OncekeyError(
    'transaction_ended',
    'The work ended its transaction by itself (commit, rollback or begin), so its writes and our record are not one commit, and nothing was ' +
      'recorded. Leave the transaction open: to undo it, throw.',
  )
