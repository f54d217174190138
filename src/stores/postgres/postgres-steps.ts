import { checkKeyRef, keyId } from '../../core/key.js'
import type { KeyRecord } from '../../core/record.js'
import type { AdvanceResult, KeyClaim, KeyFinish, StepStore, Verdict } from '../../core/store.js'
import type { Connection, Queryable } from './connections/connection.js'
import { isConnectionFailure, isSerializationFailure, translated } from './driver-errors.js'
import { auditRead } from './queries/audit-read.js'
import { jobsLag } from './queries/jobs-lag.js'
import { keyResolve } from './queries/key-resolve.js'
import { stepAdvance } from './queries/step-advance.js'
import { stepsRead } from './queries/steps-read.js'
import type { Tables } from './tables.js'

/** What the store shares with its steps. */
interface Shared<Tx> {
  readonly connection: Connection<Tx>
  readonly tables: Tables
  readonly schema: string
  ask<T>(verb: (db: Queryable) => Promise<T>): Promise<T>
  claim(db: Queryable, claim: KeyClaim): Promise<Verdict>
  finish(db: Queryable, finish: KeyFinish): Promise<AdvanceResult>
  read(db: Queryable, tenant: string, id: string): Promise<KeyRecord | undefined>
}

/** The verbs that share a transaction with the user's writes. */
export function postgresSteps<Tx>({ connection, tables, schema, ask, claim, finish, read }: Shared<Tx>): StepStore<Tx> {
  const advance = stepAdvance(tables)
  const history = stepsRead(tables)
  const resolve = keyResolve(tables)
  const audit = auditRead(tables)
  const lag = jobsLag(tables)

  return {
    transaction: (work) => connection.transaction(work),

    failureOf(error) {
      if (isSerializationFailure(error)) return 'serialization'
      return isConnectionFailure(error) ? 'connection' : 'other'
    },
    troubleOf: (error) => translated(error, schema),

    stepAdvance: (params, tx) => (tx === undefined ? ask((db) => advance(db, params)) : within(tx, (db) => advance(db, params))),
    keyFinishWithin: (params, tx) => within(tx, (db) => finish(db, params)),
    keyClaimWithin: (params, tx) => within(tx, (db) => claim(db, params)),
    stepsRead: (lease) => ask((db) => history(db, lease)),

    async savepoint(tx) {
      const run = (text: string) => within(tx, async (db) => void (await db.query(text, [])))
      await run('savepoint oncekey')
      return {
        keep: () => run('release savepoint oncekey'),
        async undo() {
          await run('rollback to savepoint oncekey')
          await run('release savepoint oncekey')
        },
      }
    },

    async keyResolve(params) {
      const id = keyId(checkKeyRef(params))
      return ask(async (db) => {
        const seen = await read(db, params.tenant, id)
        return seen?.state === 'parked' ? resolve(db, seen, params) : 'not-parked'
      })
    },

    async auditRead(ref) {
      const id = keyId(checkKeyRef(ref))
      return ask((db) => audit(db, ref.tenant, id))
    },

    jobsLagMs: () => ask(lag),
  }

  /**
   * A statement of ours in the user's transaction. It is never repeated here: after a failure the transaction is the user's to roll
   * back. A serialization failure passes as it is, because the one who began the transaction must recognise it.
   */
  async function within<T>(tx: Tx, verb: (db: Queryable) => Promise<T>): Promise<T> {
    try {
      return await verb(connection.within(tx))
    } catch (error) {
      throw isSerializationFailure(error) ? error : translated(error, schema)
    }
  }
}
