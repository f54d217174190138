import { checkKeyRef, checkTenant, isKeyId, keyId } from '../../core/key.js'
import type { AdvanceResult, OutboxStore, StepStore, Store, TurnStore, UpkeepStore, WriteResult } from '../../core/store.js'
import { type BatchOptions, batchedVerbs } from './batching/batched-verbs.js'
import { claimer } from './claim.js'
import { checkConnection } from './connections/check-driver.js'
import type { Connection, Queryable } from './connections/connection.js'
import { isSerializationFailure, translated } from './driver-errors.js'
import { checkSchema } from './migrate.js'
import { plannedBySize } from './plans.js'
import { postgresOutbox } from './postgres-outbox.js'
import { postgresSteps } from './postgres-steps.js'
import { postgresUpkeep } from './postgres-upkeep.js'
import { keysClaim, type WantedKey } from './queries/key-claim.js'
import { keyFinish } from './queries/key-finish.js'
import { keyHeartbeat } from './queries/key-heartbeat.js'
import { keyPark } from './queries/key-park.js'
import { keyReap } from './queries/key-reap.js'
import { keyRelease } from './queries/key-release.js'
import { held } from './queries/key-row.js'
import { turns } from './queries/turns.js'
import { tablesOf } from './tables.js'

export interface PostgresStoreOptions {
  /** The schema that holds the tables; `migrate()` must have been run with the same one. Default `oncekey`. */
  schema?: string
  /**
   * Keeps a trail of each key in a table of its own: claims, take-overs, steps, finishes, releases. It costs a row per write and
   * is never reaped. Resolutions of parked keys are noted in any case. Default false.
   */
  audit?: boolean
  /**
   * For tables that are distributed over several servers (Citus, by tenant): background work then uses no `skip locked`, which those
   * cannot do across tenants. It costs a wait where a row is locked. Default false.
   */
  distributed?: boolean
  /**
   * Puts claims, finishes and releases of requests that are under way at the same moment into one statement each; nobody waits for that.
   * `false`: each has its own. Default: on.
   */
  batch?: BatchOptions | false
}

export interface PostgresStore<Tx> extends Store<Tx> {
  readonly steps: StepStore<Tx>
  readonly upkeep: UpkeepStore
  readonly outbox: OutboxStore
  readonly turns: TurnStore
}

/** How often a statement that lost against another transaction is sent again. */
const maxTries = 20

/** Keys in the database of the user's own data: durable, fenced, and able to share a transaction with it. */
export function postgresStore<Tx>(
  given: Connection<Tx>,
  { schema = 'oncekey', audit = false, distributed = false, batch = {} }: PostgresStoreOptions = {},
): PostgresStore<Tx> {
  checkConnection('postgresStore', given)
  const connection = plannedBySize(given)
  // Jobs are a table of their own size.
  const outbox = plannedBySize(given)
  const tables = tablesOf(schema, { audit, distributed })
  const { claim, enqueue, peek, look, find } = claimer(tables)
  const read = async (db: Queryable, tenant: string, id: string) => (await look(db, tenant, id))?.record
  const heartbeat = keyHeartbeat(tables)
  const finish = keyFinish(tables)
  const release = keyRelease(tables)
  const park = keyPark(tables)
  const reap = keyReap(tables)
  const claimMany = keysClaim(tables, held)
  const claims = { one: (db: Queryable, { id, claim }: WantedKey) => find(db, id, claim), many: claimMany }
  const batched = batch ? batchedVerbs(connection, { claim: claims, finish, release }, batch) : undefined
  // In a transaction of the user's there is nothing to share.
  const pooled = batched ? claimer(tables, (_, id, claim) => batched.find({ id, claim })) : { claim }
  let schemaChecked: Promise<void> | undefined
  let isSchemaChecked = false

  return {
    durability: 'durable',

    keyClaim(wanted) {
      const claim = (db: Queryable) => pooled.claim(db, wanted)
      const again = (error: unknown) => askAgain(claim, error)
      return isSchemaChecked ? attempt((db) => pooled.claim(db, wanted, again)) : ask(claim)
    },
    keyEnqueue: (wanted) => ask((db) => enqueue(db, wanted)),
    keyHeartbeat: ({ leases }) => (leases.length === 0 ? Promise.resolve([]) : ask((db) => heartbeat(db, leases))),
    keyFinish: (params) => askToWrite((db) => (batched ? batched.finish(params) : finish.one(db, params))),
    keyRelease: (params) => askToWrite((db) => (batched ? batched.release(params) : release.one(db, params))),
    keyPark: (params) => askToWrite((db) => park.one(db, params)),
    keyPeek: (wanted) => ask((db) => peek(db, wanted)),
    keyRead: async (ref) => {
      const id = keyId(checkKeyRef(ref))
      return ask((db) => read(db, ref.tenant, id))
    },
    async keyReadById({ tenant, id }) {
      checkTenant(tenant)
      return isKeyId(id) ? ask((db) => look(db, tenant, id)) : undefined
    },
    keyReap: ({ limit }) => ask((db) => reap(db, limit)),

    upkeep: postgresUpkeep(tables, ask),
    outbox: postgresOutbox(tables, (verb) => ask(() => verb(outbox))),
    turns: turns(tables, ask),
    steps: postgresSteps({ connection, tables, schema, ask, claim, finish: finish.one, read }),
  }

  /** By itself, a write that was made before is as good as made now; only inside a transaction it matters. */
  function askToWrite(verb: (db: Queryable) => Promise<AdvanceResult>): Promise<WriteResult> {
    if (!isSchemaChecked) return ask(verb).then(doneOrLost)
    return attempt(verb).then(doneOrLost, (error: unknown) => askAgain(verb, error).then(doneOrLost))
  }

  /**
   * Runs a verb on the pool, again if another transaction got in its way, and says in our words what went wrong. Not an async function:
   * each request asks twice, and the schema has been checked long ago.
   */
  function ask<T>(verb: (db: Queryable) => Promise<T>): Promise<T> {
    if (isSchemaChecked) return attempt(verb).catch((error: unknown) => askAgain(verb, error))
    return checkFirst().then(() => ask(verb))
  }

  async function askAgain<T>(verb: (db: Queryable) => Promise<T>, first: unknown): Promise<T> {
    let error = first
    for (let tries = 1; isSerializationFailure(error) && tries < maxTries; tries += 1) {
      try {
        return await verb(connection)
      } catch (next) {
        error = next
      }
    }
    throw translated(error, schema)
  }

  /** What it throws at once is its answer, too. */
  function attempt<T>(verb: (db: Queryable) => Promise<T>): Promise<T> {
    try {
      return verb(connection)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  async function checkFirst(): Promise<void> {
    schemaChecked ??= checkSchema(connection, schema)
    try {
      await schemaChecked
      isSchemaChecked = true
    } catch (error) {
      schemaChecked = undefined
      throw translated(error, schema)
    }
  }
}

const doneOrLost = (result: AdvanceResult): WriteResult => (result === 'lost' ? 'lost' : 'done')
