import { sql } from 'drizzle-orm'
import { pgTable, text, uuid } from 'drizzle-orm/pg-core'

export const orders = pgTable('orders', { id: uuid().primaryKey().defaultRandom(), item: text().notNull(), charge: text() })

/** The memory of the stand-in for a payment provider. */
export const providerCharges = pgTable('provider_charges', { key: text().primaryKey(), item: text().notNull() })

/** In place of the migrations that drizzle-kit makes of the above. */
export const tables = sql`
  create table if not exists orders (id uuid primary key default gen_random_uuid(), item text not null, charge text);
  create table if not exists provider_charges (key text primary key, item text not null)`
