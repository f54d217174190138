import type { EndedKey, KeyResolve, ResolveResult } from '../../core/store.js'
import type { Connection, Queryable } from './connections/connection.js'
import { translated } from './driver-errors.js'
import { keyReleaseByHand, type ReleaseByHand } from './queries/key-release-by-hand.js'
import { keyResolve } from './queries/key-resolve.js'
import { keyRetry } from './queries/key-retry.js'
import { type KeyStory, keyStory } from './queries/key-story.js'
import type { KeySummary, SeenKey } from './queries/key-summary.js'
import { type KeysCount, keysCount } from './queries/keys-count.js'
import { type KeysFilter, keysList } from './queries/keys-list.js'
import { keysTakeBack } from './queries/keys-take-back.js'
import { type ServerFacts, settingsRead } from './queries/settings-read.js'
import { type TableMeasure, tablesMeasure } from './queries/tables-measure.js'
import { tablesOf } from './tables.js'

/** What the command line is made of, for tools of your own. Changes are compare-and-set on the key as it was seen, and always audited. */
export interface PostgresOperator {
  /** Reads the whole table unless tenant and id are given. */
  keysList(filter: KeysFilter): Promise<KeySummary[]>
  /** Reads the whole table. */
  keysCount(): Promise<KeysCount>
  keyStory(key: { readonly tenant: string; readonly id: string }): Promise<KeyStory | undefined>
  /** Makes a waiting key due now, and lets a parked one wait again if no call is in doubt. False: not in a state for it, or changed. */
  keyRetry(seen: SeenKey, change: { readonly note: string }): Promise<boolean>
  /** Takes a key from a holder that is gone, or, if so said, alive. False: not in a state for it, or changed. */
  keyReleaseByHand(seen: SeenKey, change: ReleaseByHand): Promise<boolean>
  /** A person's word on a parked key, if it is still parked as it was seen. */
  keyResolve(seen: SeenKey, word: Pick<KeyResolve, 'resolution' | 'by'>): Promise<ResolveResult>
  /** Takes all keys from holders that are gone. Reads the whole table, and leaves those alone that somebody has locked. */
  keysTakeBack(change: { readonly note: string }): Promise<readonly EndedKey[]>
  tablesMeasure(): Promise<TableMeasure[]>
  settingsRead(): Promise<ServerFacts>
}

export function postgresOperator<Tx>(connection: Connection<Tx>, { schema = 'oncekey' }: { schema?: string } = {}): PostgresOperator {
  const tables = tablesOf(schema, { audit: true })
  const list = keysList(tables)
  const count = keysCount(tables)
  const story = keyStory(tables)
  const retry = keyRetry(tables)
  const release = keyReleaseByHand(tables)
  const resolve = keyResolve(tables)
  const takeBack = keysTakeBack(tables)
  const stuck = `select tenant, id::text as id from ${tables.keys} where state = 'processing' and locked_until <= clock_timestamp()`
  const measure = tablesMeasure(schema)

  return {
    keysList: (filter) => ask((db) => list(db, filter)),
    keysCount: () => ask(count),
    keyStory: (key) => ask((db) => story(db, key)),
    keyRetry: (seen, { note }) => ask((db) => retry(db, seen, note)),
    keyReleaseByHand: (seen, change) => ask((db) => release(db, seen, change)),
    keyResolve: (seen, word) => ask((db) => resolve(db, seen, word)),
    keysTakeBack: ({ note }) => ask(async (db) => (await takeBack(db, await db.query(stuck, []), note)).swept),
    tablesMeasure: () => ask(measure),
    settingsRead: () => ask(settingsRead),
  }

  async function ask<T>(verb: (db: Queryable) => Promise<T>): Promise<T> {
    try {
      return await verb(connection)
    } catch (error) {
      throw translated(error, schema)
    }
  }
}
