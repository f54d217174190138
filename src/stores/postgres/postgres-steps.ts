import { checkKeyRef, keyId } from '../../core/key.js'
import type { AdvanceResult, KeyClaim, KeyFinish, Limit, StepStore, Verdict } from '../../core/store.js'
import { Bounded } from './bounded.js'
import type { Connection } from './connections/connection.js'
import { isConnectionFailure, isExpiry, isRefusal, isSerializationFailure, translated } from './driver-errors.js'
import { checkSchema } from './migrate.js'
import type { Statements } from './plans.js'
import { auditRead } from './queries/audit-read.js'
import { jobsLag } from './queries/jobs-lag.js'
import type { Found } from './queries/key-claim.js'
import { keyResolve } from './queries/key-resolve.js'
import { stepAdvance } from './queries/step-advance.js'
import { stepsRead } from './queries/steps-read.js'
import { checkSession } from './session-check.js'
import type { Tables } from './tables.js'

/**
 * Savepoints that are open in one transaction have different names: if one is gone, ending it must fail, and not end another one. The names come
 * again, so that statistics of statements stay small.
 */
const savepointNames = 1_000
let lastSavepoint = 0

/** What the store shares with its steps. */
interface Shared<Tx> {
  readonly connection: Connection<Tx> & Statements
  readonly tables: Tables
  readonly schema: string
  ask<T>(verb: (db: Bounded) => Promise<T>, limit?: Limit): Promise<T>
  /** Undefined once schema and session have been checked. */
  checkFirst(limit?: Limit): Promise<void> | undefined
  claim(db: Bounded, claim: KeyClaim): Promise<Verdict>
  finish(db: Bounded, finish: KeyFinish): Promise<AdvanceResult>
  read(db: Bounded, tenant: string, id: string): Promise<Found | undefined>
}

/** The verbs that share a transaction with the user's writes. */
export function postgresSteps<Tx>({ connection, tables, schema, ask, checkFirst, claim, finish, read }: Shared<Tx>): StepStore<Tx> {
  const advance = stepAdvance(tables)
  const history = stepsRead(tables)
  const resolve = keyResolve(tables)
  const audit = auditRead(tables)
  const lag = jobsLag(tables)

  /** Transactions that this store has begun, on connections that it has checked. */
  const own = new WeakSet<object>()
  /** The sessions of the user's own transactions that were checked. `connection` stands for all that the driver does not tell apart. */
  const checked = new WeakSet<object>()

  return {
    async transaction(work, limits) {
      await checkFirst(limits)
      return connection.transaction(async (tx) => {
        own.add(tx as object)
        try {
          return await work(tx)
        } finally {
          own.delete(tx as object)
        }
      }, limits)
    },

    failureOf(error) {
      if (isSerializationFailure(error)) return 'serialization'
      if (isExpiry(error)) return 'expired'
      if (isConnectionFailure(error)) return 'connection'
      return isRefusal(error) ? 'refused' : 'other'
    },
    troubleOf: (error) => translated(error, schema),

    stepAdvance: (params, tx, limit) =>
      tx === undefined ? ask((db) => advance(db, params), limit) : within(tx, (db) => advance(db, params), limit),
    keyFinishWithin: (params, tx, limit) => within(tx, (db) => finish(db, params), limit),
    keyClaimWithin: (params, tx, limit) =>
      within(
        tx,
        async (db) => {
          if (!own.has(tx as object)) await checkWithin(tx, db)
          return claim(db, params)
        },
        limit,
      ),
    stepsRead: (lease, limit) => ask((db) => history(db, lease), limit),

    async transactionId(tx) {
      if (!connection.nests) return undefined
      const [row] = await within(tx, (db) => db.query(`select pg_backend_pid() || ' ' || extract(epoch from now()) as id`, []))
      return row?.id
    },

    async savepoint(tx) {
      const run = (text: string) => within(tx, async (db) => void (await db.query(text, [])))
      lastSavepoint = (lastSavepoint % savepointNames) + 1
      const name = `oncekey_${lastSavepoint}`
      await run(`savepoint ${name}`)
      return {
        keep: () => run(`release savepoint ${name}`),
        async undo() {
          await run(`rollback to savepoint ${name}`)
          await run(`release savepoint ${name}`)
        },
      }
    },

    async keyResolve(params, limit) {
      const id = keyId(checkKeyRef(params))
      return ask(async (db) => {
        const seen = (await read(db, params.tenant, id))?.record
        return seen?.state === 'parked' ? resolve(db, seen, params) : 'not-parked'
      }, limit)
    },

    async auditRead(ref, limit) {
      const id = keyId(checkKeyRef(ref))
      return ask((db) => audit(db, ref.tenant, id), limit)
    },

    jobsLagMs: (limit) => ask(lag, limit),
  }

  /** A transaction of the user's own may be on another pool, with other settings. On its connection, because the pool may have no other. */
  async function checkWithin(tx: Tx, db: Bounded): Promise<void> {
    const session = connection.within(tx).session ?? connection
    if (checked.has(session)) return
    await checkSchema(db, schema)
    await checkSession(db)
    checked.add(session)
  }

  /**
   * A statement of ours in the user's transaction. It is never repeated here: after a failure the transaction is the user's to roll
   * back. A serialization failure passes as it is, because the one who began the transaction must recognise it.
   */
  async function within<T>(tx: Tx, verb: (db: Bounded) => Promise<T>, limit?: Limit): Promise<T> {
    try {
      return await verb(new Bounded(connection.within(tx), limit))
    } catch (error) {
      throw isSerializationFailure(error) ? error : translated(error, schema)
    }
  }
}
