import { type ErrorCode, isOncekeyError, OncekeyError } from '../../core/errors.js'
import { safely, thrownText } from '../../core/thrown-text.js'

/**
 * What a client's error means for the caller. An error of Redis itself begins with a word in capitals; any other is a failure of the
 * connection.
 */
export function translated(error: unknown): OncekeyError {
  if (isOncekeyError(error)) return error
  const message = thrownText(error)
  const [code, sentence] = isMistake(error) ? refused : meaning(message)
  return new OncekeyError(code, `${sentence} (${message})`, { cause: error })
}

/** A language error comes from a wrong argument or a bug, not from the network. */
function isMistake(error: unknown): boolean {
  const mistakes = [TypeError, RangeError, ReferenceError, SyntaxError]
  return safely(() => (error as { code?: unknown } | null)?.code === undefined && mistakes.some((kind) => error instanceof kind), false)
}

function meaning(message: string): [ErrorCode, string] {
  const word = /^[A-Z]{2,}\b/.exec(message)?.[0] ?? null
  if (word === null || passing.has(word)) {
    return ['store_unavailable', 'Redis cannot be reached, or not now: check that it runs and that the connection settings are right.']
  }
  if (word === 'READONLY') return ['store_read_only', 'This Redis takes no writes: it is a replica. Connect to the primary.']
  if (word === 'OOM') return ['store_full', 'Redis is out of memory: raise maxmemory. Nothing was stored.']
  if (word === 'NOAUTH' || word === 'WRONGPASS') {
    return ['store_forbidden', 'Redis refused the login: check user and password in the connection settings.']
  }
  if (word === 'NOPERM') {
    return ['store_forbidden', 'The Redis user may not do this: it needs EVAL, EVALSHA and the hash and expiry commands on its prefix.']
  }
  return refused
}

const refused: [ErrorCode, string] = ['store_failed', 'A script of oncekey failed. This is not expected: please report it.']

/** Starting, failing over, moving slots, blocked by another script, or short of required replicas. */
const passing = new Set(['LOADING', 'CLUSTERDOWN', 'MASTERDOWN', 'TRYAGAIN', 'MOVED', 'ASK', 'BUSY', 'NOREPLICAS', 'MISCONF', 'UNBLOCKED'])
