import { checkDriver } from './check-driver.js'
import type { Connection, Queryable, Row } from './connection.js'
import { markedTransaction } from './marked-transaction.js'
import { statementsOf } from './statements.js'

/** The subset of Prisma's interactive transaction client that we need. */
export interface PrismaTransaction {
  // biome-ignore lint/suspicious/noExplicitAny: Prisma cannot know what a raw statement takes and returns.
  $queryRawUnsafe(query: string, ...values: any[]): PromiseLike<any>
}

/** The subset of `PrismaClient` that we need. */
export interface PrismaDatabase<Tx extends PrismaTransaction> extends PrismaTransaction {
  $transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/**
 * Takes a `PrismaClient` with a driver adapter for Postgres, extended or not.
 *
 * Prisma ends a transaction after 5 s, and waits 2 s for a connection to begin one, unless the `transactionOptions` of the client say
 * otherwise: a phase that takes longer fails every time.
 *
 * @example postgresStore(fromPrisma(new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) })))
 */
export function fromPrisma<Tx extends PrismaTransaction>(prisma: PrismaDatabase<Tx>): Connection<Tx> {
  checkDriver('fromPrisma', prisma, ['$queryRawUnsafe', '$transaction'], 'a Prisma client: new PrismaClient(…)')
  return markedTransaction<Tx>({
    ...runningOn(prisma),
    within: runningOn,

    async script(tx, text) {
      for (const statement of statementsOf(text)) await runningOn(tx).query(statement, [])
    },

    transaction: (work) => prisma.$transaction(work),
  })
}

function runningOn(db: PrismaTransaction): Queryable {
  return {
    async query(text, values) {
      return (await db.$queryRawUnsafe(text, ...values)) as Row[]
    },
  }
}
