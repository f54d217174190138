import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import type { ITXClientDenyList } from '@prisma/client/runtime/client'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { createOnce, reply } from '../../src/index.js'
import { fromPrisma, postgresStore } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
import { waitUntil } from '../support/wait-until.js'
import { compile, generateClient } from './prisma/generate.js'
import { exerciseConnection } from './scenario.js'

const database = useDatabase({ migrated: false })
const folder = await generateClient()
afterAll(() => rm(folder, { recursive: true }))

/** What this file needs of the generated client, which is not there yet when this file is compiled. The last test has its real types. */
interface PrismaClient {
  $queryRawUnsafe(query: string, ...values: unknown[]): Promise<unknown>
  $transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  $disconnect(): Promise<void>
  order: {
    create(query: { data: { id: string } }): Promise<unknown>
    update(query: { where: { id: string }; data: { charge: string } }): Promise<unknown>
  }
}
type Tx = Omit<PrismaClient, ITXClientDenyList>

let prisma: PrismaClient
afterAll(() => prisma.$disconnect())

exerciseConnection<Tx>(database, async () => {
  const generated = await import(join(folder, 'client/client.ts'))
  prisma = new generated.PrismaClient({
    adapter: new PrismaPg({ connectionString: database.url, max: 1 }),
    // Prisma's own limits are a few seconds: too few for a busy machine.
    transactionOptions: { maxWait: 60_000, timeout: 60_000 },
  })
  return {
    connection: fromPrisma(prisma),
    transaction: (work) => prisma.$transaction(work),
    insertOrder: (tx, id) => tx.order.create({ data: { id } }),
    chargeOrder: (tx, id, charge) => tx.order.update({ where: { id }, data: { charge } }),
  }
})

describe("a transaction that outlives Prisma's own time limit", () => {
  const events: string[] = []

  /** A service whose client lets a transaction take so long, and work that takes longer. */
  async function impatient(timeout: number) {
    const generated = await import(join(folder, 'client/client.ts'))
    const client: PrismaClient = new generated.PrismaClient({
      adapter: new PrismaPg({ connectionString: database.url, max: 2 }),
      transactionOptions: { maxWait: 60_000, timeout },
    })
    onTestFinished(() => client.$disconnect())
    const store = postgresStore(fromPrisma(client))
    events.length = 0
    const once = createOnce({ store, onEvent: ({ type }) => void events.push(type) })
    const key = crypto.randomUUID()
    const orders = async () => (await database.pool.query('select id from orders where id = $1', [key])).rows
    /** Until Prisma has rolled back: the work's connection is idle, and in no transaction. */
    const ended = () =>
      waitUntil('Prisma has ended the transaction', async () => {
        const open = `select 1 from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`
        return (await database.pool.query(open)).rows.length === 0
      })
    return { client, store, once, key, orders, ended }
  }

  const expired = {
    code: 'store_timeout',
    status: 503,
    message: expect.stringContaining('raise transactionOptions.timeout of the Prisma client'),
    cause: { code: 'P2028' },
  }

  test.each(['phase', 'finish', 'local'] as const)(
    'in a %s, before our statement, is not repeated, and says what to raise',
    async (place) => {
      const { store, once, key, orders, ended } = await impatient(300)
      let works = 0
      const work = async (tx: Tx) => {
        works += 1
        await tx.order.create({ data: { id: key } })
        await ended()
      }
      const scope = `expires in ${place}`
      const attempt =
        place === 'local'
          ? once.local(scope, {}, (tx) => work(tx).then(() => reply(201)))
          : once.operation(scope, {}, async (run) => {
              if (place === 'phase') await run.phase('created', (tx) => work(tx))
              return run.finish((tx) => work(tx).then(() => reply(201)))
            })
      await expect(attempt.run({ tenant: 'tenant', key, input: null })).rejects.toMatchObject(expired)
      expect([works, await orders()]).toEqual([1, []])
      const record = await store.keyRead({ tenant: 'tenant', scope, key })
      expect(record?.state).toBe(place === 'local' ? undefined : 'pending')
    },
  )

  test('in the middle of the work says the same', async () => {
    const { once, key, orders, ended } = await impatient(300)
    let works = 0
    const local = once.local('expires', {}, async (tx) => {
      works += 1
      await tx.order.create({ data: { id: key } })
      await ended()
      await tx.order.update({ where: { id: key }, data: { charge: 'too late' } })
      return reply(201)
    })
    await expect(local.run({ tenant: 'tenant', key, input: null })).rejects.toMatchObject(expired)
    expect([works, await orders()]).toEqual([1, []])
  })

  test('at the commit is not repeated, and says the same', async () => {
    const { client, key, orders, ended } = await impatient(300)
    // The statement before the commit is ours: the limit has passed once it is done.
    const late: PrismaClient = new Proxy(client, {
      get: (target, name) =>
        name === '$transaction'
          ? <T>(work: (tx: Tx) => Promise<T>) =>
              target.$transaction(async (tx) => {
                const value = await work(tx)
                await ended()
                return value
              })
          : Reflect.get(target, name),
    })
    const once = createOnce({ store: postgresStore(fromPrisma(late)) })
    let works = 0
    const operation = once.operation('expires at commit', {}, async (run) => {
      await run.phase('created', async (tx) => {
        works += 1
        await tx.order.create({ data: { id: key } })
      })
      return reply(201)
    })
    await expect(operation.run({ tenant: 'tenant', key, input: null })).rejects.toMatchObject(expired)
    expect([works, await orders()]).toEqual([1, []])
  })
})

test("a phase is typed as the user's transaction client", async () => {
  const src = fileURLToPath(new URL('../../src', import.meta.url))
  await writeFile(
    join(folder, 'typed.ts'),
    `
    import { expectTypeOf } from 'vitest'
    import { type Connection, fromPrisma, postgresStore } from '${src}/stores/postgres/index.js'
    import { createOnce, reply } from '${src}/index.js'
    import type { Prisma, PrismaClient } from './client/client.js'

    declare const prisma: PrismaClient
    expectTypeOf(fromPrisma(prisma)).toEqualTypeOf<Connection<Prisma.TransactionClient>>()

    const once = createOnce({ store: postgresStore(fromPrisma(prisma)) })
    once.operation('orders.create', {}, async (run) => {
      const order = await run.phase('created', (tx) => tx.order.create({ data: { id: '1' } }))
      expectTypeOf(order).toEqualTypeOf<{ id: string; charge: string | null }>()
      // @ts-expect-error: an order has no such column
      await run.phase('refused', (tx) => tx.order.create({ data: { number: 1 } }))
      // @ts-expect-error: the client is not the transaction's to close
      await run.phase('closed', (tx) => tx.$disconnect())
      return run.finish(async (tx) => {
        expectTypeOf(tx).toEqualTypeOf<Prisma.TransactionClient>()
        return reply(201, order)
      })
    })
    once.local('credits.add', {}, async (tx) => {
      expectTypeOf(tx).toEqualTypeOf<Prisma.TransactionClient>()
      return reply(201)
    })

    const extended = prisma.$extends({ model: { order: { async free() { return 'free' } } } })
    createOnce({ store: postgresStore(fromPrisma(extended)) }).local('orders.free', {}, async (tx) => {
      expectTypeOf(await tx.order.free()).toEqualTypeOf<string>()
      return reply(201, await tx.order.create({ data: { id: '1' } }))
    })
    `,
  )
  expect(await compile(folder, 'typed.ts')).toBe('')
})
