import { createHash } from 'node:crypto'
import { thrownText } from '../../../core/thrown-text.js'
import type { RedisConnection, RedisReply } from '../connections/connection.js'

/** An atomic transition of a key. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

/**
 * What all scripts share. A key is one hash, so each script touches one cluster slot. The clock is Redis's own. `revision` rises with each
 * write, so that a decision is carried out only if the key has not changed since it was read.
 */
const prelude = `
local key = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function ms(number) return string.format('%.0f', number) end
local function get(field) return redis.call('HGET', key, field) end
local function set(...) redis.call('HSET', key, ...) redis.call('HINCRBY', key, 'revision', 1) end
local function seen(acted) return { now, acted, redis.call('HGETALL', key) } end

local function is_unchanged(incarnation, revision)
  local found = redis.call('HMGET', key, 'incarnation', 'revision')
  return found[1] == incarnation and found[2] == revision
end

local function is_newest(incarnation, fence, owner)
  local found = redis.call('HMGET', key, 'incarnation', 'fence', 'owner')
  return found[1] == incarnation and found[2] == fence and found[3] == owner
end

local function later(start, duration)
  if duration == 'inf' then return 'inf' end
  return ms(start + duration)
end

local function latest(one, other)
  if one == 'inf' or other == 'inf' then return 'inf' end
  return ms(math.max(one, other))
end

-- core/retention.ts in Lua.
local function expiry_at_finish(from, retention, floor)
  local start = now
  if from == 'creation' then start = get('createdAt') end
  return latest(later(start, retention), later(now, floor))
end

-- What is finished goes when it expires. What was begun and left goes much later; what waits for a worker or a person never goes.
local function keep()
  local found = redis.call('HMGET', key, 'state', 'expiresAt', 'leaseUntil', 'keepMs', 'async', 'afterFailure')
  local state = found[1]
  local goes = 'inf'
  if state == 'complete' or state == 'failed' then
    goes = found[2]
  elseif state == 'pending' and found[5] == '0' then
    goes = later(now, found[4])
  elseif state == 'processing' and found[5] == '0' and found[6] ~= 'park' then
    goes = later(found[3], found[4])
  end
  if goes == 'inf' then redis.call('PERSIST', key) else redis.call('PEXPIREAT', key, goes) end
end
`

export function script(lua: string): Script {
  const whole = `${prelude}${lua}`
  return { lua: whole, sha: createHash('sha1').update(whole).digest('hex') }
}

export type Arguments = readonly (string | number | Uint8Array)[]

/** Runs a script on the key with this id. */
export type RunScript = (script: Script, id: string, args: Arguments) => Promise<RedisReply>

/** By its digest; a server that does not have it is sent the script. */
export async function runScript(connection: RedisConnection, { lua, sha }: Script, key: string, args: Arguments): Promise<RedisReply> {
  const rest = ['1', key, ...args.map((value) => (typeof value === 'number' ? durationText(value) : value))]
  try {
    return await connection.send(key, ['EVALSHA', sha, ...rest])
  } catch (error) {
    if (!isUnknownScript(error)) throw error
    return connection.send(key, ['EVAL', lua, ...rest])
  }
}

function isUnknownScript(error: unknown): boolean {
  return thrownText(error).includes('NOSCRIPT')
}

const durationText = (value: number) => (value === Number.POSITIVE_INFINITY ? 'inf' : String(value))
