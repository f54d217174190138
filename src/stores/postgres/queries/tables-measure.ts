import type { Queryable } from '../connections/connection.js'

export interface TableMeasure {
  readonly name: string
  /** The planner's estimate; null before the first vacuum or analyze. */
  readonly rows: number | null
  readonly deadRows: number
  readonly tableBytes: number
  readonly indexBytes: number
  /** False if it is switched off for this table. */
  readonly autovacuum: boolean
  readonly indexes: readonly IndexMeasure[]
}

export interface IndexMeasure {
  readonly name: string
  readonly bytes: number
  /** False for what an interrupted `create index concurrently` leaves behind. */
  readonly valid: boolean
}

/** The tables of a schema, their sizes and what vacuum has left to do. Reads the catalog only. */
export function tablesMeasure(schema: string) {
  const text = `
    select relation.relname::text as name, case when relation.reltuples >= 0 then relation.reltuples::float8 end as rows,
      coalesce(usage.n_dead_tup, 0)::float8 as dead_rows,
      pg_table_size(relation.oid)::float8 as table_bytes, pg_indexes_size(relation.oid)::float8 as index_bytes,
      not coalesce(relation.reloptions::text ~ 'autovacuum_enabled=(f|off|no|0)', false) as autovacuum,
      (select coalesce(json_agg(json_build_object('name', index.relname, 'bytes', pg_relation_size(index.oid)::float8,
                                                  'valid', entry.indisvalid and entry.indisready) order by index.relname), '[]')::text
       from pg_index as entry join pg_class as index on index.oid = entry.indexrelid
       where entry.indrelid = relation.oid) as indexes
    from pg_class as relation
    join pg_namespace as namespace on namespace.oid = relation.relnamespace
    left join pg_stat_user_tables as usage on usage.relid = relation.oid
    where namespace.nspname = $1 and relation.relkind in ('r', 'p')
    order by pg_total_relation_size(relation.oid) desc, relation.relname`

  return async (db: Queryable): Promise<TableMeasure[]> => {
    const rows = await db.query(text, [schema])
    return rows.map((row) => ({
      name: row.name,
      rows: row.rows,
      deadRows: row.dead_rows,
      tableBytes: row.table_bytes,
      indexBytes: row.index_bytes,
      autovacuum: row.autovacuum,
      indexes: JSON.parse(row.indexes) as IndexMeasure[],
    }))
  }
}
