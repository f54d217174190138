import { Option } from 'commander'
import { patienceMs, troubles } from '../backlog.js'
import { accessCheck } from '../checks/access.js'
import { type Check, ok, warn } from '../checks/check.js'
import { clockCheck } from '../checks/clock.js'
import { durabilityChecks } from '../checks/durability.js'
import { limitChecks } from '../checks/limits.js'
import { poolerCheck } from '../checks/pooler.js'
import { redisChecks } from '../checks/redis.js'
import { indexChecks, schemaCheck } from '../checks/schema.js'
import { serverChecks } from '../checks/server.js'
import { sessionChecks } from '../checks/session.js'
import { vacuumChecks } from '../checks/vacuum.js'
import { columns } from '../columns.js'
import { atDesk, type CommonOptions, type Desk, databaseUrl, milliseconds, newCommand, print, type Report } from '../command.js'
import { exitCodes } from '../exit-codes.js'
import { type Paint, painter, paintLevel } from '../paint.js'
import type { Registered } from '../registered.js'
import { many } from '../words.js'

interface DoctorOptions extends CommonOptions {
  readonly strict?: true
  readonly redis?: string
  readonly late: number
}

export const doctor: Registered = (world, done) =>
  newCommand('doctor', 'Checks schema, server and settings, and says what to do.')
    .option('--redis <url>', 'check this Redis too, as a store of keys')
    .option('--strict', 'exit code 5 for warnings too')
    .addOption(
      new Option('--late <duration>', 'how late waiting keys and jobs are a warning').argParser(milliseconds).default(patienceMs, '60s'),
    )
    .addHelpText('after', '\nIt counts the whole table. Exit code 5 if a check fails.')
    .action(async (options: DoctorOptions) => {
      const checks: Check[] = []
      try {
        done(await atDesk(world, options, (desk) => examined(desk, options, checks)))
      } catch (error) {
        const finding = accessCheck(error)
        if (!finding) throw error
        checks.push(finding)
        done(print(world, options, reported(checks, options, painter(world.colours && !options.json))))
      }
    })

/** Adds findings to `checks` one by one: those before a failure count. */
async function examined(desk: Desk, options: DoctorOptions, checks: Check[]): Promise<Report> {
  const { world, connection, operator, schema } = desk
  const facts = await operator.settingsRead()
  checks.push(...serverChecks(facts), ...sessionChecks(facts), ...durabilityChecks(facts), ...limitChecks(facts))
  const second = await world.connect(databaseUrl(world, options))
  try {
    checks.push(await poolerCheck(connection, second.connection))
  } finally {
    await second.close()
  }
  checks.push(await clockCheck(connection, world.now))
  const tables = await schemaCheck(connection, schema)
  checks.push(tables)
  if (tables.level === 'ok') {
    const measures = await operator.tablesMeasure()
    checks.push(...indexChecks(measures, schema), ...vacuumChecks(facts, measures, schema), ...(await backlogChecks(desk, options)))
  }
  if (options.redis !== undefined) checks.push(...(await redisChecks(world, options.redis)))
  return reported(checks, options, desk.paint)
}

async function backlogChecks({ operator }: Desk, { late }: DoctorOptions): Promise<Check[]> {
  const found = troubles(await operator.keysCount(), late)
  return found.length === 0
    ? [ok('backlog', 'nothing is stuck, overdue, parked, undelivered or dead')]
    : found.map(({ name, says, todo }) => warn(name, says, todo))
}

function reported(checks: readonly Check[], { strict }: DoctorOptions, paint: Paint): Report {
  const count = (level: Check['level']) => checks.filter((check) => check.level === level).length
  const lines = columns(checks.map(({ level, name, says }) => [level, name, says])).flatMap((line, at) => {
    const { level, todo } = checks[at] as Check
    return [line.replace(level, () => paintLevel(paint, level, level)), ...(todo === null ? [] : [`      → ${todo}`])]
  })
  const sick = count('fail') > 0 || (strict === true && count('warn') > 0)
  return {
    data: { healthy: !sick, checks },
    lines: [...lines, '', `${many(count('fail'), 'failure')}, ${many(count('warn'), 'warning')}.`],
    exitCode: sick ? exitCodes.problems : exitCodes.fine,
  }
}
