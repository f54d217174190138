import type { Row } from '../connections/connection.js'

/** A list of keys travels as one JSON text, which every driver sends alike. */
export function keyList(parameter: string): string {
  return `json_to_recordset(${parameter}::text::json) as wanted (tenant text, id uuid)`
}

/** In the same order whoever lists them: two that write the same rows in different orders lock each other out, until the server gives one up. */
export function keyListValue(rows: readonly Row[]): string {
  return JSON.stringify(rows.map(({ tenant, id }) => ({ tenant, id })).sort((a, b) => order(a.tenant, b.tenant) || order(a.id, b.id)))
}

const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
