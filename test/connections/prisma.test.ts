import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import type { ITXClientDenyList } from '@prisma/client/runtime/client'
import { afterAll, expect, test } from 'vitest'
import { fromPrisma } from '../../src/stores/postgres/index.js'
import { useDatabase } from '../support/postgres/database.js'
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
