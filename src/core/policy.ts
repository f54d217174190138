import { hexDigest } from './digest.js'
import { type Duration, durationMs } from './duration.js'
import { OncekeyError } from './errors.js'
import { checkName, maxNameLength } from './key.js'
import { type ResolvedRetention, type Retention, resolveRetention, retention } from './retention.js'

/**
 * What to do after a crash, a lost lease or a throw; only the author of the work can decide.
 * `'rerun'` it from its start, `'store'` the failure and replay it, or `'park'` the key for an operator.
 */
export type AfterFailure = 'rerun' | 'store' | 'park'

export interface PolicyOptions {
  /**
   * How long a holder may go without a heartbeat before others take its key over. Heartbeats renew it, so it does not limit the
   * work. Too low: a long pause of the process costs it the key. Too high: after a crash retries wait longer. Default 15 s.
   */
  lease?: Duration
  /**
   * The longest that work may hold its key; then heartbeats stop and its signal aborts.
   * Too low: long work is aborted. Too high: work that hangs keeps its key for that long. Default 15 min.
   */
  maxRun?: Duration
  /**
   * How long a finished key is kept. Too low: a late retry runs again. Too high: a larger table, and more stored answers.
   * Default `retention.payment`, 24 hours from creation.
   */
  retention?: Retention
  /**
   * The minimum time an answer is kept after it was stored, for work that takes longer than its retention. Capped by the
   * retention. Too low: the last retries of very long work run again. Default 1 h.
   */
  retentionFloor?: Duration
}

export interface Policy {
  readonly leaseMs: number
  readonly maxRunMs: number
  readonly retention: ResolvedRetention
}

export function resolvePolicy(options: PolicyOptions, defaults: PolicyOptions = {}): Policy {
  const pick = <Name extends keyof PolicyOptions>(name: Name, standard: NonNullable<PolicyOptions[Name]>) =>
    (options[name] ?? defaults[name] ?? standard) as NonNullable<PolicyOptions[Name]>
  return {
    leaseMs: durationMs(pick('lease', '15s'), 'lease'),
    maxRunMs: durationMs(pick('maxRun', '15m'), 'maxRun'),
    retention: resolveRetention(pick('retention', retention.payment), pick('retentionFloor', '1h')),
  }
}

/** More than a service has kinds of work. */
const mostKnown = 32

/** The same for requests. They repeat a few options objects, so results are cached. */
export function policyResolver(defaults: PolicyOptions): (options: PolicyOptions) => Policy {
  const known: { readonly options: PolicyOptions; readonly policy: Policy }[] = []

  return function policyOf(options) {
    for (const each of known) if (saysTheSame(each.options, options)) return each.policy
    const policy = resolvePolicy(options, defaults)
    const { lease, maxRun, retention, retentionFloor } = options
    if (known.length >= mostKnown) known.length = 0
    known.push({ options: { lease, maxRun, retention, retentionFloor } as PolicyOptions, policy })
    return policy
  }
}

function saysTheSame(one: PolicyOptions, other: PolicyOptions): boolean {
  return (
    one.lease === other.lease &&
    one.maxRun === other.maxRun &&
    one.retention === other.retention &&
    one.retentionFloor === other.retentionFloor
  )
}

/** Which keys may meet: those of one endpoint, all of a tenant, or those under a given name. */
export type ScopePolicy = 'endpoint' | 'tenant' | { readonly name: string }

/** The scope of a request. A given name survives changes of paths; `'endpoint'` does not. */
export function scopeOf(policy: ScopePolicy, endpoint: { method: string; path: string }): string {
  if (policy === 'tenant') return '*'
  if (policy === 'endpoint') return endpointScope(endpoint.method.toUpperCase(), endpoint.path)
  if (typeof policy === 'object' && typeof policy?.name === 'string') return checkName('option_invalid', 'name of the scope', policy.name)
  throw new OncekeyError('option_invalid', `scope is ${String(policy)}: it must be 'endpoint', 'tenant' or { name: 'your.operation' }.`)
}

/** A path too long for a scope is replaced by its digest. */
function endpointScope(method: string, path: string): string {
  const scope = `${method} ${path}`
  return scope.length <= maxNameLength ? scope : `${method} sha256:${hexDigest(path)}`
}
