import type pg from 'pg'
import type { Subject } from './workload.js'

export interface Counters {
  walBytes: number
  fullPageImages: number
  updates: number
  hotUpdates: number
  /** Scans of whole tables, and of indexes that are not there to find a key. */
  strayScans: number
  /** Entries that scans of the key's index returned. */
  keyEntriesRead: number
  heapBytes: number
  indexBytes: number
}

/** Everything that a round is the difference of. All hand in their statistics first: Postgres waits a second. */
export async function readCounters(admin: pg.Client, lanes: readonly pg.Client[], { copy }: Subject): Promise<Counters> {
  await Promise.all([admin, ...lanes].map((client) => client.query('select pg_stat_force_next_flush()')))
  const { rows } = await admin.query(
    `select (pg_current_wal_lsn() - '0/0')::float8 as "walBytes",
       (select wal_fpi::float8 from pg_stat_wal) as "fullPageImages",
       sum(n_tup_upd)::float8 as updates,
       sum(n_tup_hot_upd)::float8 as "hotUpdates",
       sum(seq_scan + stray_scans)::float8 as "strayScans",
       sum(key_entries_read)::float8 as "keyEntriesRead",
       sum(pg_relation_size(relid))::float8 as "heapBytes",
       sum(pg_indexes_size(relid))::float8 as "indexBytes"
     from pg_stat_user_tables
     cross join lateral (
       select coalesce(sum(idx_scan) filter (where not indisunique), 0) as stray_scans,
         sum(idx_tup_read) filter (where indisunique) as key_entries_read
       from pg_stat_user_indexes stat join pg_index using (indexrelid) where stat.relid = pg_stat_user_tables.relid
     ) as indexes
     where schemaname = current_schema() and relname = any($1)`,
    [copy.tables],
  )
  return rows[0]
}

/** Where the last checkpoint began: tells whether one fell into a measurement. */
export async function lastCheckpoint(admin: pg.Client): Promise<string> {
  return (await admin.query('select redo_lsn::text from pg_control_checkpoint()')).rows[0].redo_lsn
}
