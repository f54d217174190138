import { type ErrorCode, isOncekeyError, isStoreTrouble, OncekeyError } from '../../core/errors.js'
import { safely, thrownText } from '../../core/thrown-text.js'

/**
 * What a driver's error means for the caller. Drivers agree on SQLSTATE in `code` for what the server said; anything else
 * never reached the server or never came back.
 */
export function translated(error: unknown, schema: string): OncekeyError {
  if (isOncekeyError(error)) return error
  const [code, message] = isMistake(error) ? refused : isExpiry(error) ? expired : meaning(stateOf(error), schema)
  const neverSent = withCauses(error).some((told) => told.neverSent === true) || isRefusedConnection(error)
  return new OncekeyError(code, `${message} (${thrownText(error)})`, { cause: error, neverSent })
}

/** An error of the language itself comes from a wrong argument or a bug, not from the network. Node gives a code to what its buffers refuse. */
function isMistake(error: unknown): boolean {
  const mistakes = [TypeError, RangeError, ReferenceError, SyntaxError]
  const codes = [undefined, 'ERR_OUT_OF_RANGE', 'ERR_INVALID_ARG_TYPE']
  return safely(() => mistakes.some((kind) => error instanceof kind) && codes.includes((error as { code?: string }).code), false)
}

/** Two transactions got in each other's way, or a prepared statement was of no use any more, and nothing was done: ask again. */
export function isSerializationFailure(error: unknown): boolean {
  // P2034 is Prisma's own word for both.
  return hasState(error, '40001', '40P01') || withCauses(error).some(({ code }) => code === 'P2034') || isPreparedStatementTrouble(error)
}

/**
 * A prepared statement that a DISCARD ALL has thrown away (26000), that another client of the session has made (42P05), or whose columns
 * a migration has changed (0A000). It was not executed.
 */
export function isPreparedStatementTrouble(error: unknown): boolean {
  if (hasState(error, '26000', '42P05')) return true
  // By the server's routine: the message is in the server's language. Not all ORMs hand the routine on.
  const isStalePlan = ({ message, routine }: Told) =>
    routine === 'RevalidateCachedQuery' || (typeof message === 'string' && message.includes('cached plan'))
  return hasState(error, '0A000') && withCauses(error).some(isStalePlan)
}

/** The server refused a statement; the connection remains usable. */
export function isStatementError(error: unknown): boolean {
  const state = stateOf(error)
  return state !== null && !/^(08|57P|25P0[345])/.test(state)
}

export function storeConflict(cause: unknown): OncekeyError {
  const message = `A statement conflicted with other transactions on every try, and nothing was stored: retry later. (${thrownText(cause)})`
  return new OncekeyError('store_conflict', message, { cause })
}

/** A statement exceeded `lock_timeout`. It did nothing. */
export function isLockTimeout(error: unknown): boolean {
  return hasState(error, '55P03')
}

/** A statement exceeded `lock_timeout` or `statement_timeout`. It did nothing. */
export function isImpatience(error: unknown): boolean {
  return hasState(error, '55P03', '57014')
}

function stateOf(error: unknown): string | null {
  const states = withCauses(error).map(sqlState)
  return states.find((state) => state !== null) ?? null
}

export function hasState(error: unknown, ...states: readonly string[]): boolean {
  return withCauses(error).some((told) => states.includes(sqlState(told) ?? ''))
}

/** No statement was executed: the server did not let the user in. */
export function isRefusedLogin(error: unknown): boolean {
  return stateOf(error)?.startsWith('28') === true
}

/** The server refused the commit: a deferred constraint or a deferred trigger failed. */
export function isRefusal(error: unknown): boolean {
  return stateOf(error) !== null && !isStoreTrouble(translated(error, ''))
}

/** Prisma ended or did not begin a transaction, because of its own time limit. Nothing of it was committed. */
export function isExpiry(error: unknown): boolean {
  return withCauses(error).some(({ code }) => code === 'P2028')
}

/** Without a connection nothing was sent. */
function isRefusedConnection(error: unknown): boolean {
  return withCauses(error).some(({ code }) => code === 'ECONNREFUSED' || code === 'ENOTFOUND')
}

/** The connection broke or went silent, or the server ended it: the outcome of the statement is unknown. */
export function isConnectionFailure(error: unknown): boolean {
  const { code } = translated(error, '')
  return code === 'store_unavailable' || code === 'store_timeout'
}

/** What an error of a driver or an ORM may tell: Prisma hands the error of its driver adapter on in `meta`, all others in `cause`. */
interface Told {
  readonly message?: unknown
  readonly code?: unknown
  readonly routine?: unknown
  readonly cause?: unknown
  readonly originalCode?: unknown
  readonly neverSent?: unknown
  readonly meta?: { readonly code?: unknown; readonly driverAdapterError?: unknown }
}

/** ORMs wrap the driver's error in one of their own. */
function withCauses(error: unknown): Told[] {
  const chain: Told[] = []
  let at = error
  while (typeof at === 'object' && at !== null && chain.length < 5) {
    const told = readOnce(at as Told)
    if (!told) break
    chain.push(told)
    at = told.cause ?? told.meta?.driverAdapterError
  }
  return chain
}

/** A copy, or nothing of what cannot be read: the user's work throws anything, and its getters may throw in turn. */
function readOnce(thrown: Told): Told | undefined {
  return safely(() => {
    const { message, code, routine, cause, originalCode, neverSent, meta } = thrown
    return {
      message,
      code,
      routine,
      cause,
      originalCode,
      neverSent,
      meta: { code: meta?.code, driverAdapterError: meta?.driverAdapterError },
    }
  }, undefined)
}

/**
 * The server's code, or null when the trouble is on the way to it. Driver codes such as `EPIPE` have five letters too; Prisma
 * hands the server's code on in fields of its own.
 */
function sqlState({ code, originalCode, meta }: Told): string | null {
  const states = [meta?.code, originalCode, code].filter((each) => typeof each === 'string')
  return states.find((each) => /^[0-9][0-9A-Z]{4}$|^(F0|HV|P0|XX)[0-9A-Z]{3}$/.test(each)) ?? null
}

type Meaning = readonly [code: ErrorCode, sentence: string]

/** By SQLSTATE, else by its class, which is the first two letters. */
function meaning(state: string | null, schema: string): Meaning {
  if (state === null) return unreachable
  const [code, sentence] = meanings.get(state) ?? meanings.get(state.slice(0, 2)) ?? refused
  return [code, sentence.replaceAll('{schema}', () => schema)]
}

const unreachable: Meaning = [
  'store_unavailable',
  'The database cannot be reached: check that it runs and that the connection settings are right.',
]
const crowded: Meaning = [
  'store_unavailable',
  'The database has no connection left: use smaller pools or a pooler, or raise its limit (max_connections, or that of the role or database).',
]
const ended: Meaning = ['store_unavailable', 'The database ended the session, is starting or is stopping: retry when it is up.']
const overdue: Meaning = [
  'store_unavailable',
  'The database canceled a statement or ended a session, at a time limit or for an operator: look for long waits for locks.',
]
const broken: Meaning = ['store_unavailable', 'The server of the database failed to read or write: see its log.']
const full: Meaning = ['store_full', 'The database is out of disk or memory: make room, then retry. Nothing was stored.']
const missing: Meaning = [
  'schema_missing',
  'The tables of oncekey are not in schema {schema}: run migrate() first, or name the right schema.',
]
const outdated: Meaning = ['schema_outdated', 'The tables of oncekey in schema {schema} are of another release: run migrate() of this one.']

const meanings: ReadonlyMap<string, Meaning> = new Map([
  ['08', unreachable],
  ['28', ['store_forbidden', 'The database refused the login: check user and password, and what pg_hba.conf asks of this client.']],
  ['3D', ['store_unavailable', 'The database does not exist: check its name in the connection settings, or create it.']],
  ['53300', crowded],
  ['53400', crowded],
  ['57P01', ended],
  ['57P02', ended],
  ['57P03', ended],
  ['57P05', overdue],
  ['57014', overdue],
  ['55P03', overdue],
  ['25P03', overdue],
  ['25P04', overdue],
  ['58000', broken],
  ['58030', broken],
  ['25006', ['store_read_only', 'The database takes no writes: it is a standby, or read-only. Connect to the primary.']],
  ['53100', full],
  ['53200', full],
  ['54000', full],
  [
    '25P01',
    [
      'transaction_ended',
      'There is no open transaction: pass the connection on which you have said begin, not a pool. Nothing was stored.',
    ],
  ],
  [
    '25P02',
    [
      'transaction_ended',
      'A statement of yours failed earlier in this transaction, and its error was caught: Postgres takes no statement after that. Let the error ' +
        'out, or put a savepoint around what may fail. Nothing was stored.',
    ],
  ],
  [
    '22P05',
    [
      'text_unsupported',
      'The encoding of the database lacks a character of these texts: use characters that it has, or a database with the encoding UTF8. ' +
        'Nothing was stored.',
    ],
  ],
  ['42P01', missing],
  ['3F000', missing],
  ['42703', outdated],
  ['42883', outdated],
  ['42804', outdated],
  [
    '42501',
    [
      'store_forbidden',
      'The database user lacks a right: grant it CONNECT on the database, USAGE on schema {schema}, and SELECT, INSERT, UPDATE, DELETE on its ' +
        'tables; to the one that migrates CREATE, too.',
    ],
  ],
])

const refused: Meaning = ['store_failed', 'A statement of oncekey failed. This is not expected: please report it.']

const expired: Meaning = [
  'store_timeout',
  'Prisma ended the transaction at its own time limit, and nothing of it was committed: raise transactionOptions.timeout of the Prisma ' +
    'client, or maxWait if it could not begin.',
]
