import { CommanderError } from 'commander'
import { isOncekeyError } from '../core/errors.js'
import { thrownText } from '../core/thrown-text.js'
import { CommandError, type ExitCode, exitCodes } from './exit-codes.js'
import { jsonDocument } from './words.js'
import type { World } from './world.js'

/** Prints an error on standard error, and with `--json` also on standard output, so that scripts always get a document. */
export function complain(world: World, error: unknown, { json }: { json: boolean }): ExitCode {
  // Commander has printed it already; help and version end this way too.
  if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.fine
  const data = complaintOf(error)
  if (!(error instanceof CommanderError)) world.tell(`${data.message}\n`)
  if (json) world.print(jsonDocument({ error: data }))
  return data.exitCode
}

export function complaintOf(error: unknown): { readonly exitCode: ExitCode; readonly code: string | null; readonly message: string } {
  const message = thrownText(error)
  return { exitCode: exitCodeOf(error), code: isOncekeyError(error) ? error.code : null, message }
}

function exitCodeOf(error: unknown): ExitCode {
  if (error instanceof CommandError) return error.exitCode
  if (error instanceof CommanderError) return exitCodes.usage
  if (!isOncekeyError(error)) return exitCodes.unexpected
  const ours: Partial<Record<typeof error.code, ExitCode>> = {
    option_invalid: exitCodes.usage,
    answer_invalid: exitCodes.usage,
    reconcile_key_invalid: exitCodes.usage,
    reconcile_key_repeated: exitCodes.usage,
    reconcile_unsorted: exitCodes.usage,
    schema_too_new: exitCodes.refused,
    migration_out_of_order: exitCodes.refused,
  }
  return ours[error.code] ?? exitCodes.unexpected
}
