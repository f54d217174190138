import { script } from './script.js'

/** A holder's last write: finish, release or park. Repeating it has no effect. */
export const keyEnd = script(`
local incarnation, fence, owner, state, from, retention, floor = unpack(ARGV, 1, 7)
if not is_newest(incarnation, fence, owner) then return 0 end
local before = get('state')
if before ~= 'processing' then return before == state and 1 or 0 end
redis.call('HDEL', key, 'leaseUntil', 'reason')
set('state', state, unpack(ARGV, 8))
if state == 'complete' or state == 'failed' then set('expiresAt', expiry_at_finish(from, retention, floor)) end
keep()
return 1
`)
