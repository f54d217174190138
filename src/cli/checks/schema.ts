import { isOncekeyError } from '../../core/errors.js'
import type { Connection } from '../../stores/postgres/connections/connection.js'
import { migrationStatus } from '../../stores/postgres/migrate.js'
import { type ExpectedIndex, expectedIndexes } from '../../stores/postgres/migrations/expected-indexes.js'
import type { TableMeasure } from '../../stores/postgres/queries/tables-measure.js'
import { quotedSchema } from '../../stores/postgres/schema-name.js'
import { many } from '../words.js'
import { type Check, fail, ok } from './check.js'

/** Whether the tables match this release. */
export async function schemaCheck(connection: Connection<unknown>, schema: string): Promise<Check> {
  try {
    const { applied, pending } = await migrationStatus(connection, { schema })
    if (applied.length === 0)
      return fail('schema', `there are no tables of oncekey in schema ${schema}`, 'oncekey migrate, or pass the right --schema')
    if (pending.length === 0) return ok('schema', `${schema} is at migration ${applied.length}, ${applied.at(-1)}`)
    return fail('schema', `${schema} lacks ${many(pending.length, 'migration')} of this release: ${pending.join(', ')}`, 'oncekey migrate')
  } catch (error) {
    if (isOncekeyError(error, 'schema_too_new')) return fail('schema', error.message, 'deploy the release that this schema belongs to')
    if (isOncekeyError(error, 'migration_out_of_order')) return fail('schema', error.message, 'restore its table migrations')
    throw error
  }
}

export function indexChecks(tables: readonly TableMeasure[], schema: string): Check[] {
  const found = new Map(tables.flatMap(({ indexes }) => indexes.map((index) => [index.name, index])))
  const expected = expectedIndexes(schema)
  const problems = expected.flatMap((index): Check[] => {
    const there = found.get(index.name)
    if (!there) return [fail('indexes', `${index.name} on ${index.table} is missing`, remedy(index))]
    return there.valid
      ? []
      : [
          fail(
            'indexes',
            `${index.name} on ${index.table} is not valid`,
            `drop index ${quotedSchema(schema)}.${index.name}; ${remedy(index)}`,
          ),
        ]
  })
  return problems.length > 0 ? problems : [ok('indexes', `all ${expected.length} are there and valid`)]
}

const remedy = ({ repair }: ExpectedIndex) => repair ?? 'restore the primary key: without it two requests can both win'
