import { storableText } from '../../../core/storable-text.js'
import type { Bounded } from '../bounded.js'
import type { Tables } from '../tables.js'
import { byHand, freeKey, thisKey, whatBecame } from './free-key.js'
import { waitsAnewUntil } from './key-row.js'
import type { SeenKey } from './key-summary.js'
import { audited } from './together.js'

export interface ReleaseByHand {
  /** For the trail, and as the key's reason. */
  readonly note: string
  /** Also from a holder whose lease is not over. What it has sent to others by then is under way. */
  readonly fromLiveHolder: boolean
  /** Also work whose author said that it must not simply run again. */
  readonly rerun: boolean
}

/**
 * Takes a key from its holder and lets it wait for the next one, at its recovery point. The fence rises, so that the holder cannot
 * write any more, should it be alive. The lease is asked for again here: a heartbeat may have come in since the key was seen.
 */
export function keyReleaseByHand(tables: Tables) {
  const asSeen = `key.incarnation = $3::uuid and key.fence = $4 and key.state = 'processing'
      and ($6::boolean or key.locked_until <= statement_timestamp()) and ($7::boolean or key.after_failure = 'rerun')`
  const write = `
    update ${tables.keys} as key
    set state = 'pending', fence = fence + 1, locked_until = null, waiting = true, due_at = statement_timestamp(), reason = $5,
        expires_at = ${waitsAnewUntil}
    from free where ${thisKey}
    returning key.tenant, key.id, key.incarnation, key.fence, key.reason`
  const text = `with ${freeKey(tables, asSeen)}, done as (${write}
    )${audited({ ...tables, audit: tables.auditTable }, 'done', { what: `'released by hand'`, detail: 'reason' })}
    ${whatBecame(tables, asSeen)}`

  return (db: Bounded, { tenant, id, incarnation, fence }: SeenKey, { note, fromLiveHolder, rerun }: ReleaseByHand) =>
    byHand(db, () => db.query(text, [tenant, id, incarnation, fence, storableText(note), fromLiveHolder, rerun]))
}
