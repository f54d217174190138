/** One numbered step of the schema. `:schema` stands for the quoted schema name. */
export interface Migration {
  readonly version: number
  readonly name: string
  /** True if a release that does not know this step must not use the tables any more. */
  readonly breaking: boolean
  /**
   * How the step runs on large tables; small ones get all steps in one transaction.
   * `transaction` (default): at once, so it may hold an exclusive lock for a moment only: no scan, no index, no rows to change.
   * `statements`: one by one, each for itself, as `create index concurrently` and `validate constraint` need it.
   * `batches`: each statement changes a limited number of rows, returns them, and is repeated until it finds none.
   */
  readonly mode?: 'transaction' | 'statements' | 'batches'
  readonly sql: string
}
