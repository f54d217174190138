-- Arguments: the mode, and a prefix that no run before has used (in mode "replay": the one whose answers are to be replayed).
local mode, prefix
local count = 0
local hot = 2000

function init(args)
  mode = args[1]
  prefix = args[2]
end

local function number()
  count = count + 1
  if mode == "replay" then return count % hot end
  -- Every tenth request repeats one that was answered long ago.
  if mode == "duplicates" and count % 10 == 0 and count > 4000 then return count - 3999 end
  return count
end

function request()
  local headers = { ["Content-Type"] = "application/json", ["Idempotency-Key"] = prefix .. "-" .. number() }
  return wrk.format("POST", nil, headers, '{"item":"tea","quantity":2}')
end
