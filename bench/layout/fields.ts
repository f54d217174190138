/** What a batch can carry, and the Postgres type of each. A value is already escaped for a Postgres array literal. */
const fieldTypes = {
  tenant: 'text',
  scope: 'text',
  key: 'text',
  id: 'uuid',
  serial: 'bigint',
  incarnation: 'uuid',
  owner: 'uuid',
  fence: 'integer',
  fingerprint: 'bytea',
  status: 'smallint',
  headers: 'text',
  body: 'bytea',
} as const

export type Field = keyof typeof fieldTypes
export type Request = Record<Field, string>

/** `unnest($1::text[], $2::uuid[]) as asked(tenant, id)` */
export function unnestFields(fields: readonly Field[], alias: string) {
  const parameters = fields.map((field, index) => `$${index + 1}::${fieldTypes[field]}[]`)
  return `unnest(${parameters.join(', ')}) as ${alias}(${fields.join(', ')})`
}

/** The parameters of that `unnest`. Joining text is cheaper than letting the driver quote 64 bodies again for every batch. */
export function arrayLiterals(fields: readonly Field[], requests: readonly Request[]) {
  return fields.map((field) => `{${requests.map((request) => request[field]).join(',')}}`)
}
