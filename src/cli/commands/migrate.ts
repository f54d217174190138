import { migrate as apply, migrationSql, migrationStatus } from '../../stores/postgres/migrate.js'
import { agreed, atDesk, type ChangeOptions, type Desk, newCommand, print, type Report } from '../command.js'
import { exitCodes, wrongUsage } from '../exit-codes.js'
import type { Registered } from '../registered.js'
import { many } from '../words.js'

interface MigrateOptions extends ChangeOptions {
  readonly print?: true
  readonly check?: true
}

export const migrate: Registered = (world, done) =>
  newCommand('migrate', 'Creates the tables, or brings them up to this release.')
    .option('--print', 'print the SQL for an empty database, and change nothing; needs no database')
    .option('--check', 'list what is missing, and change nothing; exit code 5 if anything is')
    .option('--yes', 'do it without asking')
    .action(async (options: MigrateOptions) => {
      if (options.print && options.check) throw wrongUsage('Pass --print or --check, not both.')
      done(options.print ? print(world, options, printed(options)) : await atDesk(world, options, (desk) => migrated(desk, options)))
    })

function printed({ schema }: MigrateOptions): Report {
  const sql = migrationSql({ schema })
  return { data: { schema, sql }, lines: [sql.trimEnd()] }
}

async function migrated({ world, connection, schema }: Desk, options: MigrateOptions): Promise<Report> {
  const { applied, pending } = await migrationStatus(connection, { schema })
  if (pending.length === 0) return { data: { schema, applied, pending }, lines: [`Schema ${schema} is up to date.`] }
  const list = pending.map((name) => `  ${name}`)
  const missing = `Schema ${schema} lacks ${many(pending.length, 'migration')}:`
  if (options.check) {
    return { data: { schema, applied, pending }, lines: [missing, ...list, 'Run: oncekey migrate'], exitCode: exitCodes.problems }
  }
  await agreed(world, options, `${missing}\n${list.join('\n')}\nApply?`)
  // Another process may have been faster: the result lists what this call applied.
  const done = await apply(connection, { schema })
  return {
    data: { schema, applied: [...applied, ...pending], pending: [], appliedNow: done },
    lines: [...done.map((name) => `applied ${name}`), `Schema ${schema} is up to date.`],
  }
}
