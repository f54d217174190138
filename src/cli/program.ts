import { Command, CommanderError } from 'commander'
import { isOncekeyError } from '../core/errors.js'
import { doctor } from './commands/doctor.js'
import { list } from './commands/list.js'
import { migrate } from './commands/migrate.js'
import { reap } from './commands/reap.js'
import { release } from './commands/release.js'
import { resolve } from './commands/resolve.js'
import { retry } from './commands/retry.js'
import { show } from './commands/show.js'
import { status } from './commands/status.js'
import { sweep } from './commands/sweep.js'
import { CommandError, type ExitCode, exitCodes } from './exit-codes.js'
import type { Registered } from './registered.js'
import { version } from './version.js'
import { jsonDocument } from './words.js'
import type { World } from './world.js'

const commands: readonly Registered[] = [migrate, status, list, show, release, retry, resolve, reap, sweep, doctor]

/** The whole program on its command line. Everything it says, it says through `world`. */
export async function run(world: World, words: readonly string[]): Promise<ExitCode> {
  let exitCode: ExitCode = exitCodes.fine
  const program = newProgram(world, (code) => {
    exitCode = code
  })
  try {
    await program.parseAsync(words, { from: 'user' })
    return exitCode
  } catch (error) {
    return complain(world, error, words.includes('--json'))
  }
}

function newProgram(world: World, done: (exitCode: ExitCode) => void): Command {
  const program = new Command('oncekey')
    .description('Looks after the idempotency keys of a service: oncekey on Postgres.')
    .version(version, '--version', 'print the version')
    .helpOption('--help', 'print this')
    .helpCommand('help [command]', 'print what there is to say of a command')
    .addHelpText(
      'after',
      `
Exit codes: 0 fine, 1 unexpected error, 2 wrong usage, 3 refused: the key is not
in a state for it or has changed, 4 no such key or several, 5 problems found
(doctor, status --check, migrate --check).`,
    )
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.print(text),
      writeErr: (text) => world.tell(text),
      getOutHelpWidth: () => 80,
      getErrHelpWidth: () => 80,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
  for (const command of commands) program.addCommand(command(world, done).copyInheritedSettings(program).helpOption('--help', 'print this'))
  return program
}

/** Says what went wrong, on standard error, and with `--json` on standard output too: a script always gets its document. */
function complain(world: World, error: unknown, json: boolean): ExitCode {
  // Commander has said it already, and shows help and version this way too.
  if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.fine
  const exitCode = exitCodeOf(error)
  const message = error instanceof Error ? error.message : String(error)
  if (!(error instanceof CommanderError)) world.tell(`${message}\n`)
  if (json) world.print(jsonDocument({ error: { exitCode, code: isOncekeyError(error) ? error.code : null, message } }))
  return exitCode
}

function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandError) return error.exitCode
  if (error instanceof CommanderError) return exitCodes.usage
  if (!isOncekeyError(error)) return exitCodes.unexpected
  const ours: Partial<Record<typeof error.code, ExitCode>> = {
    option_invalid: exitCodes.usage,
    answer_invalid: exitCodes.usage,
    schema_too_new: exitCodes.refused,
    migration_out_of_order: exitCodes.refused,
  }
  return ours[error.code] ?? exitCodes.unexpected
}
