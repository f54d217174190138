import { Command } from 'commander'
import { doctor } from './commands/doctor.js'
import { jobs } from './commands/jobs.js'
import { list } from './commands/list.js'
import { migrate } from './commands/migrate.js'
import { reap } from './commands/reap.js'
import { reconcile } from './commands/reconcile.js'
import { release } from './commands/release.js'
import { resolve } from './commands/resolve.js'
import { retry } from './commands/retry.js'
import { show } from './commands/show.js'
import { status } from './commands/status.js'
import { sweep } from './commands/sweep.js'
import { complain } from './complaint.js'
import { type ExitCode, exitCodes } from './exit-codes.js'
import type { Registered } from './registered.js'
import { version } from './version.js'
import type { World } from './world.js'

const commands: readonly Registered[] = [migrate, status, list, show, release, retry, resolve, jobs, reap, sweep, reconcile, doctor]

/** The whole program. All output goes through `world`. */
export async function run(world: World, words: readonly string[]): Promise<ExitCode> {
  let exitCode: ExitCode = exitCodes.fine
  const program = newProgram(world, (code) => {
    exitCode = code
  })
  try {
    await program.parseAsync(words, { from: 'user' })
    return exitCode
  } catch (error) {
    return complain(world, error, { json: words.includes('--json') })
  }
}

function newProgram(world: World, done: (exitCode: ExitCode) => void): Command {
  const program = new Command('oncekey')
    .description('Inspects and repairs the idempotency keys of a service on Postgres.')
    .version(version, '--version', 'print the version')
    .helpOption('--help', 'print this')
    .helpCommand('help [command]', 'print the help of a command')
    .addHelpText(
      'after',
      `
Exit codes: 0 fine, 1 unexpected error, 2 wrong usage, 3 refused: the key or
job is not in a state for it or has changed, 4 no such key or job, or several,
5 problems found (doctor, status --check, migrate --check), 6 the two sides
differ (reconcile).`,
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
  for (const command of commands) program.addCommand(settled(command(world, done)))
  return program

  function settled(command: Command): Command {
    command.commands.forEach(settled)
    return command.copyInheritedSettings(program).helpOption('--help', 'print this')
  }
}
