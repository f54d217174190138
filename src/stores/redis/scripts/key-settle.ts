import { script } from './script.js'

/** The holder is gone, and its work must not run again. The fence rises, so that the holder cannot return. */
export const keySettle = script(`
local incarnation, revision, state, from, retention, floor = unpack(ARGV, 1, 6)
if not is_unchanged(incarnation, revision) then return seen(0) end
redis.call('HINCRBY', key, 'fence', 1)
redis.call('HDEL', key, 'leaseUntil')
set('state', state, 'expiresAt', expiry_at_finish(from, retention, floor), unpack(ARGV, 7))
keep()
return seen(1)
`)
