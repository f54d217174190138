import type { EndedKey, JobRef, KeyResolve, ResolveResult } from '../../core/store.js'
import { askAgain } from './ask-again.js'
import { Bounded } from './bounded.js'
import type { Connection } from './connections/connection.js'
import { type JobStory, jobStory } from './queries/job-story.js'
import type { SeenJob } from './queries/job-summary.js'
import { type JobsFilter, type JobsList, jobsList } from './queries/jobs-list.js'
import { type JobsResolveByHand, jobsResolveByHand } from './queries/jobs-resolve-by-hand.js'
import { keyReleaseByHand, type ReleaseByHand } from './queries/key-release-by-hand.js'
import { keyResolve } from './queries/key-resolve.js'
import { keyRetry } from './queries/key-retry.js'
import { type KeyStory, keyStory } from './queries/key-story.js'
import type { KeySummary, SeenKey } from './queries/key-summary.js'
import { type KeysCount, keysCount } from './queries/keys-count.js'
import { type KeysFilter, keysList } from './queries/keys-list.js'
import { type AnsweredKey, type KeyPlace, type KeysWanted, keysPage } from './queries/keys-page.js'
import { keysTakeBack } from './queries/keys-take-back.js'
import { type ServerFacts, settingsRead } from './queries/settings-read.js'
import { type TableMeasure, tablesMeasure } from './queries/tables-measure.js'
import { tablesOf } from './tables.js'

/** What the command line is made of, for tools of your own. Changes are compare-and-set on the key or job as it was seen, and always audited. */
export interface PostgresOperator {
  /** Reads the whole table unless tenant and id are given. */
  keysList(filter: KeysFilter): Promise<KeySummary[]>
  /**
   * Keys with their answers as one stream, in the order of their ids, for `reconcile()`; without `tenant`, tenant by tenant. It is read page by
   * page along the primary key, and holds no transaction in between.
   */
  keysStream(wanted: KeysWanted, options?: { readonly pageSize?: number }): AsyncGenerator<AnsweredKey, void, undefined>
  /** Reads the whole table. */
  keysCount(): Promise<KeysCount>
  keyStory(key: { readonly tenant: string; readonly id: string }): Promise<KeyStory | undefined>
  /** Makes a waiting key due now, and lets a parked one wait again if no call is in doubt. False: not in a state for it, or changed. */
  keyRetry(seen: SeenKey, change: { readonly note: string }): Promise<boolean>
  /** Takes a key from a holder that is gone, or, if so said, alive. False: not in a state for it, or changed. */
  keyReleaseByHand(seen: SeenKey, change: ReleaseByHand): Promise<boolean>
  /** A person's word on a parked key, if it is still parked as it was seen. */
  keyResolve(seen: SeenKey, word: Pick<KeyResolve, 'resolution' | 'by'>): Promise<ResolveResult>
  /** Takes all keys from holders that are gone. Reads the whole table, and skips locked ones. */
  keysTakeBack(change: { readonly note: string }): Promise<readonly EndedKey[]>
  /** Jobs that are not delivered. Reads the whole table, unless tenant and id are given or only dead jobs are wanted. */
  jobsList(filter: JobsFilter): Promise<JobsList>
  jobStory(job: JobRef): Promise<JobStory | undefined>
  /** A person's word on jobs that were given up, those that still are so as they were seen and that no session has locked. Says how many. */
  jobsResolve(seen: readonly SeenJob[], change: JobsResolveByHand): Promise<number>
  tablesMeasure(): Promise<TableMeasure[]>
  settingsRead(): Promise<ServerFacts>
}

/** Some read whole tables. */
const limit = { timeoutMs: 10 * 60_000 }

export function postgresOperator<Tx>(connection: Connection<Tx>, { schema = 'oncekey' }: { schema?: string } = {}): PostgresOperator {
  const tables = tablesOf(schema, { audit: true })
  const list = keysList(tables)
  const page = keysPage(tables)
  const count = keysCount(tables)
  const story = keyStory(tables)
  const retry = keyRetry(tables)
  const release = keyReleaseByHand(tables)
  const resolve = keyResolve(tables)
  const takeBack = keysTakeBack(tables)
  const stuck = `select tenant, id::text as id, scope, key from ${tables.keys} where state = 'processing' and locked_until <= clock_timestamp()`
  const listJobs = jobsList(tables)
  const storyOfJob = jobStory(tables)
  const resolveJobs = jobsResolveByHand(tables)
  const measure = tablesMeasure(schema)

  return {
    keysList: (filter) => ask((db) => list(db, filter)),
    async *keysStream(wanted, { pageSize = 1_000 } = {}) {
      for (let after: KeyPlace | undefined; ; ) {
        const { keys, more } = await ask((db) => page(db, wanted, after, pageSize))
        yield* keys
        if (!more) return
        after = keys.at(-1)
      }
    },
    keysCount: () => ask(count),
    keyStory: (key) => ask((db) => story(db, key)),
    keyRetry: (seen, { note }) => ask((db) => retry(db, seen, note)),
    keyReleaseByHand: (seen, change) => ask((db) => release(db, seen, change)),
    keyResolve: (seen, word) => ask((db) => resolve(db, seen, word)),
    keysTakeBack: ({ note }) =>
      ask(async (db) => {
        const { swept, errors } = await takeBack(db, await db.query(stuck, []), note)
        if (swept.length === 0 && errors.length > 0) throw errors[0]
        return swept
      }),
    jobsList: (filter) => ask((db) => listJobs(db, filter)),
    jobStory: (job) => ask((db) => storyOfJob(db, job)),
    jobsResolve: (seen, change) => ask((db) => resolveJobs(db, seen, change)),
    tablesMeasure: () => ask(measure),
    settingsRead: () => ask(settingsRead),
  }

  async function ask<T>(verb: (db: Bounded) => Promise<T>): Promise<T> {
    const db = new Bounded(connection, limit)
    return verb(db).catch((error: unknown) => askAgain(db, schema, () => verb(db), error))
  }
}
