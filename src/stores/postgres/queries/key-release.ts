import type { KeyRelease, WriteResult } from '../../../core/store.js'
import type { Queryable } from '../connections/connection.js'
import { fencedWrite } from './fenced-write.js'

/** Gives the key back unfinished. Its recovery point stays, so the next holder goes on from there. */
export function keyRelease(keys: string) {
  const write = fencedWrite(keys, 'reason = $7')

  return (db: Queryable, { lease, reason }: KeyRelease): Promise<WriteResult> => write(db, lease, 'pending', [reason ?? null])
}
