import { script } from './script.js'

/** Takes over a key without a live holder, with the next fence. */
export const keyTakeOver = script(`
local incarnation, revision, owner, lease_ms, attempts = unpack(ARGV)
if not is_unchanged(incarnation, revision) then return seen(0) end
redis.call('HINCRBY', key, 'fence', 1)
redis.call('HINCRBY', key, 'attempts', attempts)
set('state', 'processing', 'owner', owner, 'leaseUntil', ms(now + lease_ms))
keep()
return seen(1)
`)
