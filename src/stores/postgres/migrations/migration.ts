/** One numbered step of the schema. `:schema` stands for the quoted schema name. */
export interface Migration {
  readonly version: number
  readonly name: string
  /** True if a release that does not know this step must not use the tables any more. */
  readonly breaking: boolean
  readonly sql: string
}
