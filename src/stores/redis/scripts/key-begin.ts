import type { KeyClaim } from '../../../core/store.js'
import { type SeenKey, version } from '../key-hash.js'
import { script } from './script.js'

/** Creates the key if there is none, or replaces the one that was seen expired. */
export const keyBegin = script(`
local incarnation, revision, state, fence, lease_ms, retention_ms, keep_ms = unpack(ARGV, 1, 7)
if redis.call('EXISTS', key) == 1 then
  if not is_unchanged(incarnation, revision) then return seen(0) end
  redis.call('DEL', key)
end
if state == 'processing' then set('leaseUntil', ms(now + lease_ms)) end
set('state', state, 'fence', fence, 'createdAt', ms(now), 'expiresAt', later(now, retention_ms), 'keepMs', keep_ms, unpack(ARGV, 8))
keep()
return seen(1)
`)

/** Held, or enqueued for workers. */
export type Beginning = 'held' | 'queued'

export function beginArguments(claim: KeyClaim, as: Beginning, keepMs: number, over?: SeenKey): (string | number | Uint8Array)[] {
  const { tenant, scope, key, owner, leaseMs, retention, afterFailure, fingerprint, request } = claim
  return [
    ...version(over),
    ...(as === 'held' ? ['processing', '1'] : ['pending', '0']),
    leaseMs,
    retention.ms,
    Math.max(retention.ms, keepMs),
    ...['tenant', tenant, 'scope', scope, 'key', key, 'incarnation', owner, 'owner', owner, 'afterFailure', afterFailure],
    ...['async', as === 'queued' ? '1' : '0', 'attempts', '0'],
    ...(fingerprint ? ['fingerprint', fingerprint.bytes] : []),
    ...(request ? ['request', request] : []),
  ]
}
