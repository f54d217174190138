import type { ServerFacts } from '../../stores/postgres/queries/settings-read.js'
import type { TableMeasure } from '../../stores/postgres/queries/tables-measure.js'
import { quotedSchema } from '../../stores/postgres/schema-name.js'
import { type Check, fail, ok, warn } from './check.js'

/** Our tables are vacuumed at 5 % dead rows: at this share, vacuum does not keep up. Small tables may have any share. */
const deadShare = 0.3
const deadRowsAtLeast = 10_000

export function vacuumChecks({ settings }: ServerFacts, tables: readonly TableMeasure[], schema: string): Check[] {
  const name = 'autovacuum'
  const quoted = quotedSchema(schema)
  const off = ['autovacuum', 'track_counts'].filter((setting) => settings[setting] !== 'on')
  const found = [
    ...off.map((setting) => fail(name, `${setting} is off: the space of finished and deleted keys is never reused`, `set ${setting} = on`)),
    ...tables
      .filter(({ autovacuum }) => !autovacuum)
      .map((table) => fail(name, `it is off for ${table.name}`, `alter table ${quoted}.${table.name} reset (autovacuum_enabled)`)),
    ...tables
      .filter(({ deadRows, rows }) => deadRows >= deadRowsAtLeast && deadRows > (deadRows + (rows ?? 0)) * deadShare)
      .map((table) =>
        warn(
          name,
          `${table.name} has ${table.deadRows.toLocaleString('en')} dead rows: vacuum does not keep up`,
          `look for old transactions (pg_stat_activity.xact_start), then: vacuum ${quoted}.${table.name}`,
        ),
      ),
  ]
  return found.length > 0 ? found : [ok(name, 'it is on, and keeps up')]
}
