import type { Row } from '../connections/connection.js'

/** A list of keys travels as one JSON text, which every driver sends alike. */
export function keyList(parameter: string): string {
  return `json_to_recordset(${parameter}::text::json) as wanted (tenant text, id uuid)`
}

export const keyListValue = (rows: readonly Row[]) => JSON.stringify(rows.map(({ tenant, id }) => ({ tenant, id })))
