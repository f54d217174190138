import { checkKeyRef, checkTenant, isKeyId, keyId } from '../../core/key.js'
import type { AdvanceResult, Limit, OutboxStore, StepStore, Store, TurnStore, UpkeepStore, WriteResult } from '../../core/store.js'
import { askAgain } from './ask-again.js'
import { type BatchOptions, batchedVerbs, batchedWithdrawals } from './batching/batched-verbs.js'
import { Bounded } from './bounded.js'
import { claimer } from './claim.js'
import { checkConnection } from './connections/check-driver.js'
import type { Connection } from './connections/connection.js'
import { translated } from './driver-errors.js'
import { checkSchema } from './migrate.js'
import { plannedBySize } from './plans.js'
import { postgresOutbox } from './postgres-outbox.js'
import { postgresSteps } from './postgres-steps.js'
import { postgresUpkeep } from './postgres-upkeep.js'
import { keyClaim, keysClaim } from './queries/key-claim.js'
import { keyFinish } from './queries/key-finish.js'
import { keyHeartbeat } from './queries/key-heartbeat.js'
import { keyPark } from './queries/key-park.js'
import { keyReap } from './queries/key-reap.js'
import { keyRelease } from './queries/key-release.js'
import { held } from './queries/key-row.js'
import { keyWithdraw } from './queries/key-withdraw.js'
import { turns } from './queries/turns.js'
import { withReason } from './reasons.js'
import { checkSession } from './session-check.js'
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
   * Puts claims, finishes and releases of requests that are under way at the same moment into one statement each; none of them waits for others.
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
  const heartbeat = keyHeartbeat(tables)
  const finish = keyFinish(tables)
  const release = keyRelease(tables)
  const park = keyPark(tables)
  const reap = keyReap(tables)
  const withdrawals = batchedWithdrawals(connection, keyWithdraw(tables))
  const claims = { one: keyClaim(tables, held), many: keysClaim(tables, held) }
  const batched = batch ? batchedVerbs(connection, { claim: claims, finish, release }, batch) : undefined
  const { claim, claimWithin, enqueue, peek, read } = claimer(tables, batched?.find)
  let schemaChecked: Promise<void> | undefined
  let isSchemaChecked = false

  return {
    durability: 'durable',

    keyClaim(wanted, limit) {
      if (!isSchemaChecked) return ask((db) => claim(db, wanted), limit)
      const db = new Bounded(connection, limit)
      const again = (error: unknown) => askAgain(db, schema, () => claim(db, wanted), error)
      return attempt(() => claim(db, wanted, again))
    },
    keyEnqueue: (wanted, limit) => ask((db) => enqueue(db, wanted), limit),
    async keyWithdraw({ owner, ...ref }, limit) {
      const id = keyId(checkKeyRef(ref))
      return ask((db) => withdrawals.submit({ tenant: ref.tenant, id, owner }, db.until), limit)
    },
    keyHeartbeat: ({ leases }, limit) => (leases.length === 0 ? Promise.resolve([]) : ask((db) => heartbeat(db, leases), limit)),
    keyFinish: withReason((params, limit) => askToWrite((db) => (batched ? batched.finish(db, params) : finish.one(db, params)), limit)),
    keyRelease: withReason((params, limit) => askToWrite((db) => (batched ? batched.release(db, params) : release.one(db, params)), limit)),
    keyPark: withReason((params, limit) => askToWrite((db) => park.one(db, params), limit)),
    keyPeek: (wanted, limit) => ask((db) => peek(db, wanted), limit),
    async keyRead(ref, limit, parts) {
      const id = keyId(checkKeyRef(ref))
      return (await ask((db) => read(db, ref.tenant, id, parts), limit))?.record
    },
    async keyReadById({ tenant, id }, limit, parts) {
      checkTenant(tenant)
      return isKeyId(id) ? ask((db) => read(db, tenant, id, parts), limit) : undefined
    },
    keyReap: (wanted, limit) => ask((db) => reap(db, wanted), limit),

    upkeep: postgresUpkeep(tables, ask),
    outbox: postgresOutbox(tables, (verb, limit) => ask(verb, limit, outbox)),
    turns: turns(tables, ask),
    steps: postgresSteps({ connection, tables, schema, ask, checkFirst: checkOnce, claim: claimWithin, finish: finish.one, read }),
  }

  /** By itself, a write that was made before is as good as made now; only inside a transaction it matters. */
  function askToWrite(verb: (db: Bounded) => Promise<AdvanceResult>, limit?: Limit): Promise<WriteResult> {
    return ask(verb, limit).then(doneOrLost)
  }

  /**
   * Runs a verb on the pool, again if another transaction got in its way, and says in our words what went wrong. All of it ends at the limit.
   * Not an async function: each request asks twice, and the schema has been checked long ago.
   */
  function ask<T>(verb: (db: Bounded) => Promise<T>, limit?: Limit, on = connection): Promise<T> {
    const db = new Bounded(on, limit)
    if (!isSchemaChecked) return checkFirst(db).then(() => ask(verb, { timeoutMs: db.leftMs() }, on))
    return attempt(() => verb(db)).catch((error: unknown) => askAgain(db, schema, () => verb(db), error))
  }

  /** What it throws at once is its answer, too. */
  function attempt<T>(verb: () => Promise<T>): Promise<T> {
    try {
      return verb()
    } catch (error) {
      return Promise.reject(error)
    }
  }

  function checkOnce(limit?: Limit): Promise<void> | undefined {
    return isSchemaChecked ? undefined : checkFirst(new Bounded(connection, limit))
  }

  async function checkFirst(db: Bounded): Promise<void> {
    schemaChecked ??= checkSchema(db, schema).then(() => checkSession(db))
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
