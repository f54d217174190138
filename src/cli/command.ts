import { Command, InvalidArgumentError } from 'commander'
import { type Duration, durationMs } from '../core/duration.js'
import type { Connection } from '../stores/postgres/connections/connection.js'
import { type PostgresOperator, postgresOperator } from '../stores/postgres/operator.js'
import { type ExitCode, exitCodes, refused, wrongUsage } from './exit-codes.js'
import { type Paint, painter } from './paint.js'
import { jsonDocument } from './words.js'
import type { World } from './world.js'

export interface CommonOptions {
  readonly databaseUrl?: string
  readonly schema: string
  readonly json?: true
}

export interface ChangeOptions extends CommonOptions {
  readonly yes?: true
  readonly by?: string
  readonly note?: string
}

/** What a command works with. */
export interface Desk {
  readonly world: World
  readonly connection: Connection<unknown>
  readonly operator: PostgresOperator
  readonly schema: string
  readonly paint: Paint
}

/** The result of a command: data for `--json`, lines for people. */
export interface Report {
  readonly data: unknown
  readonly lines: readonly string[]
  readonly exitCode?: ExitCode
}

/** A command with the common options. */
export function newCommand(name: string, summary: string): Command {
  return new Command(name)
    .description(summary)
    .option('--database-url <url>', 'the database (default: the variable DATABASE_URL)')
    .option('--schema <name>', 'the schema with the tables', 'oncekey')
    .option('--json', 'print one JSON document instead of text')
}

/** The same for a command that changes data. */
export function newChange(name: string, summary: string): Command {
  return newCommand(name, summary)
    .option('--yes', 'do it without asking')
    .option('--by <name>', 'who does it, for the audit trail (default: your user name)')
    .option('--note <text>', 'why, for the audit trail')
}

/** Connects, does the work, disconnects, and prints the result. */
export async function atDesk(world: World, options: CommonOptions, work: (desk: Desk) => Promise<Report>): Promise<ExitCode> {
  const { connection, close } = await world.connect(databaseUrl(world, options))
  try {
    const { schema } = options
    const operator = postgresOperator(connection, { schema })
    return print(world, options, await work({ world, connection, operator, schema, paint: painter(world.colours && !options.json) }))
  } finally {
    await close()
  }
}

export function databaseUrl(world: World, options: Pick<CommonOptions, 'databaseUrl'>): string {
  const url = options.databaseUrl ?? world.env.DATABASE_URL
  if (url) return url
  throw wrongUsage('No database given: set DATABASE_URL, or pass --database-url.')
}

export function print(world: World, options: CommonOptions, { data, lines, exitCode = exitCodes.fine }: Report): ExitCode {
  world.print(options.json ? jsonDocument(data) : `${lines.join('\n')}\n`)
  return exitCode
}

/** Asks before a change. Without a terminal it fails instead of waiting. */
export async function agreed(world: World, { yes }: ChangeOptions, question: string): Promise<void> {
  if (yes) return
  if (!world.ask)
    throw wrongUsage(`${question} There is no terminal to answer on: pass --yes to do it without asking. Nothing was changed.`)
  const answer = await world.ask(`${question} [y/N] `)
  if (!/^y(es)?$/i.test(answer.trim())) throw refused('Nothing was changed.')
}

/** For the trail: what was done, by whom, and why. */
export function noteOf(world: World, what: string, { by, note }: ChangeOptions): string {
  return `${what} by ${by ?? world.user}${note ? `: ${note}` : ''}`
}

export function wholeNumber(least: number, most: number) {
  return (text: string): number => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= least && number <= most) return number
    throw new InvalidArgumentError(`It must be an integer from ${least} to ${most}.`)
  }
}

export function milliseconds(text: string): number {
  try {
    return durationMs((/^\d+$/.test(text) ? Number(text) : text) as Duration, 'It')
  } catch {
    throw new InvalidArgumentError(`It must be a duration such as 90s, 5m or 72h.`)
  }
}
