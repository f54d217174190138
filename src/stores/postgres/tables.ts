import { quotedSchema } from './schema-name.js'

/** The tables of one schema, by their quoted names. */
export interface Tables {
  readonly keys: string
  readonly steps: string
  readonly jobs: string
  /** Null when no trail is kept. */
  readonly audit: string | null
  readonly auditTable: string
}

export function tablesOf(schema: string, audit: boolean): Tables {
  const quoted = quotedSchema(schema)
  const auditTable = `${quoted}.audit`
  return { keys: `${quoted}.keys`, steps: `${quoted}.steps`, jobs: `${quoted}.jobs`, audit: audit ? auditTable : null, auditTable }
}
