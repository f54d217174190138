import { quotedSchema } from './schema-name.js'

/** The tables of one schema, by their quoted names. */
export interface Tables {
  readonly keys: string
  readonly steps: string
  readonly jobs: string
  /** Null when no trail is kept. */
  readonly audit: string | null
  readonly auditTable: string
  readonly upkeep: string
  /**
   * Leaves rows of `key` alone that another session has locked: one frozen transaction must not hold up all upkeep. Empty where
   * the tables are distributed, which cannot do that across tenants; a conditional write then waits for such a row.
   */
  readonly skippingLocked: string
  readonly distributed: boolean
}

export function tablesOf(schema: string, { audit = false, distributed = false }: { audit?: boolean; distributed?: boolean } = {}): Tables {
  const quoted = quotedSchema(schema)
  const auditTable = `${quoted}.audit`
  return {
    keys: `${quoted}.keys`,
    steps: `${quoted}.steps`,
    jobs: `${quoted}.jobs`,
    audit: audit ? auditTable : null,
    auditTable,
    upkeep: `${quoted}.upkeep`,
    skippingLocked: distributed ? '' : 'for no key update of key skip locked',
    distributed,
  }
}
