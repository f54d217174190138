import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { createOnce, type OperationRun, reply } from '../../src/index.js'
import { fromPg, postgresStore } from '../../src/stores/postgres/index.js'
import type { TestDatabase } from '../support/postgres/database.js'

/** Keys in every state, made by real work, each of a tenant of its own. */
export function keysOf(database: TestDatabase, { audit = false } = {}) {
  const store = () => postgresStore(fromPg(database.pool), { audit })
  const tenant = `tenant-${randomUUID()}`
  const operation = (body: (run: OperationRun<pg.PoolClient>) => Promise<ReturnType<typeof reply>>) =>
    createOnce({ store: store() })
      .operation('orders.create', {}, body)
      .run({ tenant, key: 'k', input: { item: 'tea' } })
  const name = ['--tenant', tenant, '--scope', 'orders.create', 'k']

  return {
    tenant,
    name,
    complete: () => operation(async () => reply(201, { id: 1 }, { location: '/orders/1' })),
    /** Waiting: its work threw after its first phase. */
    pending: () =>
      operation(async (run) => {
        await run.phase('order_created', () => ({ id: 1 }))
        throw new Error('the provider is down')
      }).catch(() => {}),
    /** Parked over a call. */
    inDoubt: () =>
      operation(async (run) => {
        await run.phase('order_created', () => ({ id: 1 }))
        await run.call('charge_created', () => Promise.reject(new Error('reset')), { whenUnknown: 'park' })
        return reply(201)
      }),
    /** Parked without a call in doubt: its steps do not fit the code. */
    async parked() {
      const before = operation(async (run) => {
        await run.phase('a', () => 1)
        throw new Error('half-way')
      })
      await before.catch(() => {})
      return operation(async () => reply(201))
    },
    /** Held by somebody who will not come back. With a lease that is over, unless `leaseMs` is longer than the test. */
    async held({ afterFailure = 'rerun', over = true }: { afterFailure?: 'rerun' | 'store' | 'park'; over?: boolean } = {}) {
      const verdict = await store().keyClaim({
        tenant,
        scope: 'orders.create',
        key: 'k',
        owner: randomUUID(),
        fingerprint: null,
        leaseMs: 600_000,
        retention: { ms: 86_400_000, from: 'creation', floorMs: 3_600_000 },
        afterFailure,
        request: null,
        worker: false,
      })
      if (verdict.kind !== 'execute') throw new Error(verdict.kind)
      if (over) await this.pass(700_000)
      return verdict.lease
    },
    /** Lets time pass for this tenant. */
    async pass(ms: number) {
      const past = (column: string) => `${column} = ${column} - ${ms} * interval '1 millisecond'`
      const columns = ['created_at', 'expires_at', 'reap_after', 'locked_until', 'due_at']
      await database.pool.query(`update oncekey.keys set ${columns.map(past).join(', ')} where tenant = $1`, [tenant])
      await database.pool.query(`update oncekey.steps set ${past('recorded_at')} where tenant = $1`, [tenant])
      await database.pool.query(`update oncekey.jobs set ${past('staged_at')} where tenant = $1`, [tenant])
      await database.pool.query(`update oncekey.audit set ${past('at')} where tenant = $1`, [tenant])
    },
    async row() {
      const { rows } = await database.pool.query(`select *, due_at <= clock_timestamp() as due from oncekey.keys where tenant = $1`, [
        tenant,
      ])
      return rows[0]
    },
    async trail() {
      const { rows } = await database.pool.query('select what, detail, fence from oncekey.audit where tenant = $1 order by at', [tenant])
      return rows as { what: string; detail: string | null; fence: number }[]
    },
    /** The next attempt, which finds what it needs: it goes through. */
    again: () =>
      operation(async (run) => {
        await run.phase('order_created', () => ({ id: 1 }))
        const charge = await run.call('charge_created', () => ({ id: 'ch_new' }), { whenUnknown: 'park' })
        return reply(201, charge)
      }),
    store: store(),
  }
}
