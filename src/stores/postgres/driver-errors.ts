import { type ErrorCode, isOncekeyError, OncekeyError } from '../../core/errors.js'

/**
 * What a driver's error means for the caller. Drivers agree on SQLSTATE in `code` for what the server said; anything else
 * never reached the server or never came back.
 */
export function translated(error: unknown, schema: string): OncekeyError {
  if (isOncekeyError(error)) return error
  const state =
    withCauses(error)
      .map(sqlState)
      .find((found) => found !== null) ?? null
  const [code, message] = isMistake(error) ? refused : meaning(state, schema)
  return new OncekeyError(code, `${message} (${error instanceof Error ? error.message : String(error)})`, { cause: error })
}

/** An error of the language itself comes from a wrong argument or a bug, not from the network. Node gives a code to what its buffers refuse. */
function isMistake(error: unknown): boolean {
  const mistakes = [TypeError, RangeError, ReferenceError, SyntaxError]
  const codes = [undefined, 'ERR_OUT_OF_RANGE', 'ERR_INVALID_ARG_TYPE']
  return mistakes.some((kind) => error instanceof kind) && codes.includes((error as { code?: string }).code)
}

/** Two transactions got in each other's way, or a prepared statement was of no use any more, and nothing was done: ask again. */
export function isSerializationFailure(error: unknown): boolean {
  // P2034 is Prisma's own word for both.
  return hasState(error, '40001', '40P01') || withCauses(error).some(({ code }) => code === 'P2034') || isPreparedStatementTrouble(error)
}

/**
 * A prepared statement that somebody's DISCARD ALL has thrown away (26000), that the session has of somebody else (42P05), or whose columns
 * a migration has changed (0A000). It was not executed.
 */
export function isPreparedStatementTrouble(error: unknown): boolean {
  if (hasState(error, '26000', '42P05')) return true
  return hasState(error, '0A000') && withCauses(error).some(({ message }) => /cached plan/.test(String(message)))
}

/** A statement that stood behind a lock for too long, or for longer than the user lets any take. It did nothing. */
export function isImpatience(error: unknown): boolean {
  return hasState(error, '55P03', '57014')
}

function hasState(error: unknown, ...states: readonly string[]): boolean {
  return withCauses(error).some((told) => states.includes(sqlState(told) ?? ''))
}

/** The connection broke, or the server ended it: nobody knows what became of what was under way. */
export function isConnectionFailure(error: unknown): boolean {
  return translated(error, '').code === 'store_unavailable'
}

/** What an error of a driver or an ORM may tell: Prisma hands the error of its driver adapter on in `meta`, all others in `cause`. */
interface Told {
  readonly message?: unknown
  readonly code?: unknown
  readonly cause?: unknown
  readonly originalCode?: unknown
  readonly meta?: { readonly code?: unknown; readonly driverAdapterError?: unknown }
}

/** ORMs wrap the driver's error in one of their own. */
function withCauses(error: unknown): Told[] {
  const chain: Told[] = []
  let at = error
  while (typeof at === 'object' && at !== null && chain.length < 5) {
    const told: Told = at
    chain.push(told)
    at = told.cause ?? told.meta?.driverAdapterError
  }
  return chain
}

/**
 * The server's code, or null when the trouble is on the way to it. Driver codes such as `EPIPE` have five letters too; Prisma
 * hands the server's code on in fields of its own.
 */
function sqlState({ code, originalCode, meta }: Told): string | null {
  const states = [meta?.code, originalCode, code].filter((each) => typeof each === 'string')
  return states.find((each) => /^[0-9][0-9A-Z]{4}$|^(F0|HV|P0|XX)[0-9A-Z]{3}$/.test(each)) ?? null
}

function meaning(state: string | null, schema: string): [ErrorCode, string] {
  const group = state?.slice(0, 2)
  if (state === null || group === '08' || group === '3D' || unavailable.has(state)) {
    return ['store_unavailable', 'The database cannot be reached: check that it runs and that the connection settings are right.']
  }
  if (state === '25006') {
    return ['store_read_only', 'The database takes no writes: it is a standby, or read-only. Connect to the primary.']
  }
  if (state === '53100' || state === '53200' || state === '54000') {
    return ['store_full', 'The database is out of disk or memory: make room, then retry. Nothing was stored.']
  }
  if (state === '42P01' || state === '3F000') {
    return ['schema_missing', `The tables of oncekey are not in schema ${schema}: run migrate() first, or name the right schema.`]
  }
  if (state === '42703' || state === '42883' || state === '42804') {
    return ['schema_outdated', `The tables of oncekey in schema ${schema} are of another release: run migrate() of this one.`]
  }
  if (state === '42501' || group === '28') {
    return [
      'store_forbidden',
      `The database user may not use schema ${schema}: grant it USAGE, and SELECT, INSERT, UPDATE, DELETE on its tables.`,
    ]
  }
  return refused
}

const refused: [ErrorCode, string] = ['store_failed', 'A statement of oncekey failed. This is not expected: please report it.']

/** The server is there but not for us: starting, stopping, out of connections, or it ended our session or statement. */
const unavailable = new Set(['57P01', '57P02', '57P03', '57P05', '57014', '53300', '53400', '55P03', '25P03', '25P04', '58000', '58030'])
