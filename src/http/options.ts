import { type Duration, durationMs } from '../core/duration.js'
import { OncekeyError } from '../core/errors.js'
import type { AfterFailure, PolicyOptions, ScopePolicy } from '../core/policy.js'
import { header, type KeySource } from './key-source.js'
import type { ProblemCode } from './problems.js'
import { type Documentation, type Profile, profiles } from './profiles.js'

/** The common options of `idempotency()` and `serve()`. `Native` is the framework's request. */
export interface HttpOptions<Native> {
  /**
   * Whose key it is. Keys of two tenants never meet, so no tenant is shown another's answer: take it from the authenticated caller,
   * never from client input. `'single'`: the service has one tenant only.
   */
  tenant: 'single' | ((request: Native) => string | Promise<string>)
  /** Where the key comes from. Default `header()`: the `Idempotency-Key` header, quoted or not. */
  key?: KeySource<Native>
  /** Whether a request without a key is refused. Default: `serve()` refuses it, `idempotency()` lets it pass unprotected. */
  required?: boolean
  /** The dialect: `'ietf'` (400, 409, 422 and problem+json), `'stripe'`, or one of your own. Default `'ietf'`. */
  profile?: 'ietf' | 'stripe' | Profile
  /**
   * The answer to a request whose key is in progress: `'conflict'` 409, `'accepted'` 202, both with `Retry-After`; `'wait'` waits for the
   * stored answer, at most as long as `wait` says, then 409. Default `'conflict'`.
   */
  whenInProgress?: 'conflict' | 'wait' | 'accepted'
  /**
   * The longest that `'wait'` waits. Too low: clients have to retry. Too high: a slow request ties up connections, and clients
   * time out first. Default 10 s.
   */
  wait?: Duration
  /**
   * Larger request bodies are refused with 413 before anything runs: a body is compared, so it is read into memory. Too low: legitimate
   * requests are refused. Too high: many large ones at once fill the memory. Default 10 MiB.
   */
  maxBodyBytes?: number
  /**
   * `'raw'` compares the bytes of bodies. `'parsed'` compares what a body parser left, for services where the bytes are gone: it cannot
   * distinguish integers past 2^53, duplicate members, or files of a form. Default `'raw'`.
   */
  fingerprint?: 'raw' | 'parsed'
  /**
   * Base URL of your own pages about the problems: `type` and `Link` become this URL plus the code. Default: a URN as `type`, and
   * a link to the pages of this package.
   */
  problemBase?: string
}

export interface IdempotencyOptions<Native> extends HttpOptions<Native>, PolicyOptions {
  /**
   * What to do with a key whose handler crashed, lost its lease, threw or answered 5xx. There is no default: only the author of
   * the handler knows whether it may run again. `'rerun'` it from its start, `'store'` the error and replay it, or `'park'` the key
   * for an operator.
   */
  afterFailure: AfterFailure
  /** The protected methods; others pass untouched. Default POST and PATCH (profile `stripe`: POST). */
  methods?: readonly string[]
  /**
   * Which keys may meet: those of one `'endpoint'` (method and path), all of a `'tenant'`, or those under a given name, which survives
   * changes of paths. Default `'endpoint'` (profile `stripe`: `'tenant'`).
   */
  scope?: ScopePolicy
  /** Runs the handler unprotected while the store is down. Only for work where a duplicate is cheap. Default false: 503. */
  failOpen?: boolean
}

interface AnyServeOptions<Native> extends HttpOptions<Native> {
  /** Makes the operation's input from the JSON body, or from the bytes of any other body. Default: the JSON body. */
  input?: (request: Native, body: unknown) => unknown
}

/** Runs the operation while its client waits. */
export interface SyncServeOptions<Native> extends AnyServeOptions<Native> {
  respond?: 'sync'
  location?: never
  pollAfter?: never
}

/** Enqueues the operation for workers. `whenInProgress` and `wait` have no effect: duplicates get the same 202 until there is an answer. */
export interface AsyncServeOptions<Native> extends AnyServeOptions<Native> {
  /**
   * `'sync'` answers when the operation has run. `'async'` stores the request and answers 202 at once; a worker in any process runs it, and
   * `status()` reports its state. Default `'sync'`.
   */
  respond: 'async'
  /** The URL of `status()` for the operation with this id. It becomes `Location`. */
  location: (id: string, request: Native) => string
  /**
   * When a client should poll first. Too low: needless polls. Too high: fast work is noticed late.
   * Default 1 s.
   */
  pollAfter?: Duration
}

export type ServeOptions<Native> = SyncServeOptions<Native> | AsyncServeOptions<Native>

export interface StatusOptions<Native> extends Pick<HttpOptions<Native>, 'tenant' | 'profile' | 'problemBase'> {
  /** The id of the operation. Default: the last segment of the path. */
  id?: (request: Native) => MaybeId | Promise<MaybeId>
  /** How often a client should poll while there is no answer. Too low: needless polls. Too high: late notice. Default 1 s. */
  pollAfter?: Duration
}

type MaybeId = string | undefined | null

export interface HttpSettings<Native> {
  readonly tenantOf: (request: Native) => string | Promise<string>
  readonly key: KeySource<Native>
  readonly required: boolean
  readonly profile: Profile
  readonly whenInProgress: 'conflict' | 'wait' | 'accepted'
  /** Undefined unless it waits. */
  readonly waitMs: number | undefined
  readonly maxBodyBytes: number
  readonly fingerprint: 'raw' | 'parsed'
  readonly documentation: Documentation
}

/** Checked once at start, not at the first request. */
export function resolveHttpOptions<Native>(
  options: HttpOptions<Native>,
  requiredByDefault: (profile: Profile) => boolean,
): HttpSettings<Native> {
  const { tenant, whenInProgress = 'conflict', wait = '10s', maxBodyBytes = 10 * 1024 * 1024, fingerprint = 'raw' } = options ?? {}
  if (tenant !== 'single' && typeof tenant !== 'function') {
    throw invalid('tenant', tenant, "a function of the request that says whose key it is, or 'single' if there is one tenant only")
  }
  const source = options.key ?? header()
  if (typeof source !== 'function' && source?.kind !== 'header' && source?.kind !== 'field') {
    throw invalid('key', source, "header(), field('…') or a function of the request")
  }
  const profile = profileOf(options.profile ?? 'ietf')
  const key = typeof source === 'object' && source.kind === 'header' ? { syntax: profile.keySyntax ?? 'lenient', ...source } : source
  oneOf('whenInProgress', whenInProgress, ['conflict', 'wait', 'accepted'])
  oneOf('fingerprint', fingerprint, ['raw', 'parsed'])
  if (!Number.isInteger(maxBodyBytes) || maxBodyBytes < 0) throw invalid('maxBodyBytes', maxBodyBytes, 'an integer of at least 0')
  checkFlag('required', options.required)
  const waitMs = durationMs(wait, 'wait')
  return {
    tenantOf: tenant === 'single' ? () => 'single' : tenant,
    key,
    required: options.required ?? requiredByDefault(profile),
    profile,
    whenInProgress,
    waitMs: whenInProgress === 'wait' ? waitMs : undefined,
    maxBodyBytes,
    fingerprint,
    documentation: documentationAt(options.problemBase),
  }
}

/** Whole seconds for `Retry-After`, at least 1. */
export function secondsOf(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}

export function pollAfterMs({ pollAfter = '1s' }: { readonly pollAfter?: Duration | undefined }): number {
  return durationMs(pollAfter, 'pollAfter')
}

/** Where npm package files are served publicly. */
const packagePages = 'https://unpkg.com/oncekey/docs/problems/'

function documentationAt(base: string | undefined): Documentation {
  if (base === undefined) {
    return { type: (code) => `urn:oncekey:problem:${code}`, page: (code) => `${packagePages}${code}.md` }
  }
  if (!URL.canParse(base)) throw invalid('problemBase', base, 'an absolute address, such as https://api.example.com/problems/')
  const folder = base.endsWith('/') ? base : `${base}/`
  const page = (code: ProblemCode) => new URL(code, folder).href
  return { type: page, page }
}

function profileOf(profile: 'ietf' | 'stripe' | Profile): Profile {
  if (typeof profile === 'object' && typeof profile?.render === 'function') return profile
  oneOf('profile', profile, ['ietf', 'stripe'])
  return profiles[profile as 'ietf' | 'stripe']
}

export function oneOf(name: string, value: unknown, choices: readonly string[]): void {
  if (!choices.includes(value as string)) throw invalid(name, value, choices.map((choice) => `'${choice}'`).join(' or '))
}

export function checkFlag(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean') throw invalid(name, value, 'true or false')
}

export function needsFunction(name: string, value: unknown, expected: string): void {
  if (typeof value !== 'function') throw invalid(name, value, expected)
}

export function checkFunction(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'function') throw invalid(name, value, 'a function')
}

export function checkMethods(methods: unknown): void {
  const isMethod = (method: unknown) => typeof method === 'string' && method !== ''
  if (Array.isArray(methods) && methods.every(isMethod)) return
  throw invalid('methods', methods, "an array of HTTP method names, such as ['POST', 'PUT']")
}

function invalid(name: string, value: unknown, expected: string): OncekeyError {
  return new OncekeyError(
    'option_invalid',
    `${name} is ${typeof value === 'function' ? 'a function' : String(value)}: it must be ${expected}.`,
  )
}
