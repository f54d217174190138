import { script } from './script.js'

/** Undoes a claim: deletes a key it created, even if swept since; releases a key it took over. */
export const keyWithdraw = script(`
local owner, holder_gone = unpack(ARGV)
local found = redis.call('HMGET', key, 'owner', 'state', 'fence', 'incarnation', 'reason')
local state, fence = found[2], tonumber(found[3])
if found[1] ~= owner then return 0 end
local is_begun = found[4] == owner
local was_taken_back = fence == 2 and found[5] == holder_gone and (state == 'pending' or state == 'parked')
if state ~= 'processing' and not (is_begun and was_taken_back) then return 0 end
if is_begun then
  redis.call('DEL', key)
  return 1
end
redis.call('HDEL', key, 'leaseUntil')
set('state', 'pending')
keep()
return 1
`)
