import type { Row } from '../connections/connection.js'

/** A list of keys travels as one JSON text, which every driver sends alike. */
export function keyList(parameter: string): string {
  return `json_to_recordset(${parameter}::text::json) as wanted (tenant text, id uuid)`
}

/** Always in the same order: two that write the same rows in different orders lock each other out, until the server gives one up. */
export function keyListValue(rows: readonly Row[]): string {
  return JSON.stringify(rows.map(({ tenant, id }) => ({ tenant, id })).sort((a, b) => inKeyOrder(a.tenant, a.id, b.tenant, b.id)))
}

/** Compares two keys by tenant and id. */
export function inKeyOrder(tenant: string, id: string, otherTenant: string, otherId: string): number {
  return order(tenant, otherTenant) || order(id, otherId)
}

const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
