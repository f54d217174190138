import { storableText } from '../../../core/storable-text.js'
import type { Queryable } from '../connections/connection.js'
import type { Tables } from '../tables.js'
import { waitsAnewUntil } from './key-row.js'
import type { SeenKey } from './key-summary.js'
import { noted } from './together.js'

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
  const write = `
    update ${tables.keys}
    set state = 'pending', fence = fence + 1, locked_until = null, waiting = true, due_at = clock_timestamp(), reason = $5,
        expires_at = ${waitsAnewUntil}
    where tenant = $1 and id = $2::uuid and incarnation = $3::uuid and fence = $4 and state = 'processing'
      and ($6::boolean or locked_until <= clock_timestamp()) and ($7::boolean or after_failure = 'rerun')
    returning tenant, id, incarnation, fence, reason`
  const text = noted({ ...tables, audit: tables.auditTable }, write, { what: `'released by hand'`, detail: 'reason' }, 'fence')

  return async (db: Queryable, { tenant, id, incarnation, fence }: SeenKey, { note, fromLiveHolder, rerun }: ReleaseByHand) =>
    (await db.query(text, [tenant, id, incarnation, fence, storableText(note), fromLiveHolder, rerun])).length > 0
}
