-- Notes a walk at a place. Of all that come there within an hour two are kept: the earliest horizon and the latest.
--
-- KEYS: the places of a cursor. ARGV: the name of the place, the time in ms, the horizon, the walk as it is kept,
-- for how many seconds.

local HOUR = 3600000
local hour = math.floor(tonumber(ARGV[2]) / HOUR)
local horizon = tonumber(ARGV[3])

local function outdone(field, sign)
    local held = redis.call('HGET', KEYS[1], field)
    if not held then
        return true
    end
    local seen = cjson.decode(held)
    return math.floor(seen[4] / HOUR) < hour or (horizon - seen[2].horizon) * sign >= 0
end

-- The hour before is still there while this one begins.
for which, sign in pairs({ earliest = -1, latest = 1 }) do
    local field = ARGV[1] .. ' ' .. which .. ' ' .. hour % 2
    if outdone(field, sign) then
        redis.call('HSET', KEYS[1], field, ARGV[4])
    end
end
if redis.call('TTL', KEYS[1]) < tonumber(ARGV[5]) then
    redis.call('EXPIRE', KEYS[1], ARGV[5])
end
