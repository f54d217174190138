import { script } from './script.js'

/** Renews the newest lease. */
export const keyHeartbeat = script(`
local incarnation, fence, owner, lease_ms = unpack(ARGV)
if not is_newest(incarnation, fence, owner) or get('state') ~= 'processing' then return 0 end
set('leaseUntil', ms(now + lease_ms))
keep()
return 1
`)
