import { quotedSchema } from '../schema-name.js'
import { migrations } from './compiled.js'

export interface ExpectedIndex {
  readonly table: string
  readonly name: string
  /** The statement that makes it again without stopping writes. Null for a primary key, which no statement of ours should bring back. */
  readonly repair: string | null
}

/** The indexes that a schema of this release has, read from the migrations themselves, so that the list cannot be out of date. */
export function expectedIndexes(schema: string): ExpectedIndex[] {
  const script = migrations.map(({ sql }) => sql.replaceAll(/--.*$/gm, '')).join('\n')
  const tables = ['migrations', ...[...script.matchAll(/create table :schema\.(\w+)/g)].map(([, table]) => table as string)]
  const made = [...script.matchAll(/create (?:unique )?index (?:concurrently )?(\w+)\s+on :schema\.(\w+)[^;]*/g)]
  const dropped = new Set(
    [...script.matchAll(/drop index (?:concurrently )?(?:if exists )?:schema\.(\w+)/g)].map(([, name]) => name as string),
  )
  const repairOf = (statement: string) =>
    statement.replace(/index (?:concurrently )?/, 'index concurrently ').replace(':schema', () => quotedSchema(schema))
  return [
    ...tables.map((table) => ({ table, name: `${table}_pkey`, repair: null })),
    ...made.map(([statement, name, table]) => ({ table: table as string, name: name as string, repair: `${repairOf(statement)};` })),
  ].filter(({ name }) => !dropped.has(name))
}
