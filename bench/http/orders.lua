-- Arguments: the mode, and a prefix that no run before has used (in mode "replay": the one whose answers are to be replayed).
local mode, head, tail
local count = 0
local hot = 2000

-- All but the number of a key is put together once: the service shares the processor with this.
function init(args)
  mode = args[1]
  local headers = { ["Content-Type"] = "application/json", ["Idempotency-Key"] = args[2] .. "-@" }
  local whole = wrk.format("POST", nil, headers, '{"item":"tea","quantity":2}')
  local place = whole:find("-@", 1, true)
  head = whole:sub(1, place)
  tail = whole:sub(place + 2)
end

local function number()
  count = count + 1
  if mode == "replay" then return count % hot end
  -- Every tenth request repeats one that was answered long ago.
  if mode == "duplicates" and count % 10 == 0 and count > 4000 then return count - 3999 end
  return count
end

function request()
  return head .. number() .. tail
end
