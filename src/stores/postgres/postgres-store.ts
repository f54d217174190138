import { decide } from '../../core/decision.js'
import { OncekeyError } from '../../core/errors.js'
import { checkKeyRef, keyId } from '../../core/key.js'
import type { KeyClaim, Store, Verdict } from '../../core/store.js'
import { execute, report } from '../../core/verdict.js'
import type { Connection, Queryable } from './connections/connection.js'
import { isSerializationFailure, translated } from './driver-errors.js'
import { checkSchema } from './migrate.js'
import { type Found, keyClaim } from './queries/key-claim.js'
import { keyFinish } from './queries/key-finish.js'
import { keyHeartbeat } from './queries/key-heartbeat.js'
import { keyPark } from './queries/key-park.js'
import { keyRead } from './queries/key-read.js'
import { keyReap } from './queries/key-reap.js'
import { keyRecreate } from './queries/key-recreate.js'
import { keyRelease } from './queries/key-release.js'
import { keySettle } from './queries/key-settle.js'
import { keyTakeOver } from './queries/key-take-over.js'
import { quotedSchema } from './schema-name.js'

export interface PostgresStoreOptions {
  /** The schema that holds the tables; `migrate()` must have been run with the same one. Default `oncekey`. */
  schema?: string
}

export interface PostgresStore<Tx> extends Store<Tx> {
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/** A claim that loses this many races in a row says "in progress", which is then the truth. */
const maxLooks = 20

/** Keys in the database of the user's own data: durable, fenced, and able to share a transaction with it. */
export function postgresStore<Tx>(connection: Connection<Tx>, { schema = 'oncekey' }: PostgresStoreOptions = {}): PostgresStore<Tx> {
  const keys = `${quotedSchema(schema)}.keys`
  const claimed = keyClaim(keys)
  const takeOver = keyTakeOver(keys)
  const recreate = keyRecreate(keys)
  const settle = keySettle(keys)
  const heartbeat = keyHeartbeat(keys)
  const finish = keyFinish(keys)
  const release = keyRelease(keys)
  const park = keyPark(keys)
  const read = keyRead(keys)
  const reap = keyReap(keys)
  let schemaChecked: Promise<void> | undefined

  return {
    durability: 'durable',

    keyClaim: (claim) => ask((db) => decideClaim(db, claim)),
    keyHeartbeat: ({ leases }) => (leases.length === 0 ? Promise.resolve([]) : ask((db) => heartbeat(db, leases))),
    keyRelease: (params) => ask((db) => release(db, params)),
    keyPark: (params) => ask((db) => park(db, params)),
    keyRead: async (ref) => {
      const id = keyId(checkKeyRef(ref))
      return ask((db) => read(db, ref.tenant, id))
    },
    keyReap: ({ limit }) => ask((db) => reap(db, limit)),

    async keyFinish(params, tx) {
      if (tx === undefined) return ask((db) => finish(db, params))
      const result = await finish(connection.within(tx), params).catch((error: unknown) => {
        throw translated(error, schema)
      })
      if (result === 'done') return result
      throw new OncekeyError('lease_lost', 'Another holder has taken this key over: this transaction must not commit.')
    },

    transaction: (work) => connection.transaction(work),
  }

  async function decideClaim(db: Queryable, claim: KeyClaim): Promise<Verdict> {
    const id = keyId(checkKeyRef(claim))
    for (let look = 0; look < maxLooks; look += 1) {
      const found = await claimed(db, id, claim)
      const verdict = found && (await follow(db, found, claim))
      if (verdict) return verdict
    }
    return { kind: 'in-progress', retryAfterMs: claim.leaseMs }
  }

  /** What a found key comes to; undefined if it changed meanwhile, and must be looked at again. */
  async function follow(db: Queryable, { record, inserted, now }: Found, claim: KeyClaim): Promise<Verdict | undefined> {
    if (inserted) return execute(record)
    if (record.scope !== claim.scope || record.key !== claim.key) {
      throw new OncekeyError('store_key_collision', `Two different keys have the id ${record.id}. Neither was run; use another key.`)
    }
    const decision = decide(record, claim, now)
    switch (decision.do) {
      case 'recognise':
        return execute(record)
      case 'take-over': {
        const taken = await takeOver(db, record, claim)
        return taken && execute(taken)
      }
      case 'recreate': {
        const created = await recreate(db, record, claim)
        return created && execute(created)
      }
      case 'settle':
        await settle(db, record, decision.as, claim.retention)
        return undefined
      case 'create':
        return undefined
      default:
        return report(record, decision)
    }
  }

  /** Runs a verb on the pool, again if another transaction got in its way, and says in our words what went wrong. */
  async function ask<T>(verb: (db: Queryable) => Promise<T>): Promise<T> {
    try {
      schemaChecked ??= checkSchema(connection, schema)
      await schemaChecked.catch((error: unknown) => {
        schemaChecked = undefined
        throw error
      })
      for (let tries = 0; ; tries += 1) {
        try {
          return await verb(connection)
        } catch (error) {
          if (!isSerializationFailure(error) || tries >= maxLooks) throw error
        }
      }
    } catch (error) {
      throw translated(error, schema)
    }
  }
}
