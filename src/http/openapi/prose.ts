import { maxKeyLength } from '../../core/key.js'
import { resolvePolicy, type ScopePolicy } from '../../core/policy.js'
import type { Retention } from '../../core/retention.js'
import type { HttpSettings } from '../options.js'

type Settings = HttpSettings<never>

/** What a client has to send. `makesKey`: the service makes a key if none is sent. */
export function keyProse({ key, required }: Settings, makesKey: boolean): string {
  const without = makesKey ? 'makes one from the request' : 'carries out each request anew'
  return [whereTheKeyIs(key), required ? 'A request without a key is refused.' : `Without a key the service ${without}.`].join(' ')
}

function whereTheKeyIs(key: Settings['key']): string {
  const rule = 'make a new one for each operation, such as a UUID, and send the same one when you retry it.'
  const length = `1 to ${maxKeyLength} characters`
  if (typeof key === 'function') return `The service takes the idempotency key from the request, ${length}: ${rule}`
  if (key.kind === 'field') return `The member \`${key.path}\` of the JSON body is the idempotency key, ${length}: ${rule}`
  if (key.syntax === 'opaque') return `The header \`${key.name}\` has the idempotency key, ${length}: ${rule}`
  const quotes = key.syntax === 'strict' ? '' : ' The quotes may be left out: it is the same key.'
  return `The header \`${key.name}\` has the idempotency key: ${rule} It is a string of ${length} in double quotes (RFC 9651).${quotes}`
}

/** The answer to a request whose key was used before. */
export function requestProse(settings: Settings, scope: ScopePolicy | 'operation', retention: string, async: boolean): string {
  return [
    'A request with a key that was used before is not carried out again: it gets the first answer, with `Idempotent-Replayed: true`.',
    'It must be the same request: method, path, query string, media type and body. JSON is compared by its meaning, so white space and',
    `the order of members do not count. ${whereKeysMeet(scope)}${async ? whileAccepted : whileInProgress(settings)}`,
    retention === forEver ? 'A key is remembered forever.' : `A key is remembered for ${retention}; after that it is a new one.`,
  ].join(' ')
}

function whereKeysMeet(scope: ScopePolicy | 'operation'): string {
  if (scope === 'endpoint') return 'The same key at another endpoint is another key. '
  return scope === 'tenant' ? 'The same key at another endpoint is refused. ' : ''
}

function whileInProgress({ whenInProgress, waitMs }: Settings): string {
  const comeBack = 'and `Retry-After` says when to come back'
  if (whenInProgress === 'accepted') return `While the first request is worked on, the answer is 202, ${comeBack}.`
  if (waitMs === undefined) return `While the first request is worked on, the answer is 409, ${comeBack}.`
  return `While the first request is worked on, others wait for its answer, ${inWords(waitMs)} at most; then it is 409, ${comeBack}.`
}

const whileAccepted =
  'The request is accepted with 202 and carried out later: `Location` is where its state, and then its answer, can be read, and ' +
  '`Retry-After` says when to look. Until there is an answer, duplicates get the same.'

/** The purpose of the status resource. */
export const statusProse = [
  'What became of a request that was accepted with 202. While there is no answer it is 200 with the state, and `Retry-After` says when to',
  'look again; then it is the answer itself, as the request would have got it, with `Idempotent-Replayed: true`.',
].join(' ')

const forEver = 'forever'

/** How long a key is kept, in words. */
export function retentionText(option: Retention | undefined): string {
  const { ms, from } = resolvePolicy(option === undefined ? {} : { retention: option }).retention
  if (ms === Number.POSITIVE_INFINITY) return forEver
  return `${inWords(ms)} from ${from === 'creation' ? 'the first request' : 'the first answer'}`
}

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

/** In the largest unit without a remainder; one day is "24 hours". */
function inWords(ms: number): string {
  const [name, size] = units.find(([unit, length]) => ms % length === 0 && (unit !== 'day' || ms > length)) ?? ['millisecond', 1]
  return `${ms / size} ${name}${ms === size ? '' : 's'}`
}
