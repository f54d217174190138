/** For scripts. `docs/reference/cli.md` lists them; a test checks that. */
export const exitCodes = {
  fine: 0,
  unexpected: 1,
  usage: 2,
  refused: 3,
  notFound: 4,
  problems: 5,
  different: 6,
} as const

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** Ends a command early, with a message for the user. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: ExitCode

  constructor(exitCode: ExitCode, message: string) {
    super(message)
    this.exitCode = exitCode
  }
}

export const wrongUsage = (message: string) => new CommandError(exitCodes.usage, message)
export const refused = (message: string) => new CommandError(exitCodes.refused, message)
export const notFound = (message: string) => new CommandError(exitCodes.notFound, message)
