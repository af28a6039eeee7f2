-- Admits or refuses one request by the key's minute window, and counts an admitted request for the day.
-- Everything happens in one script, so an admission usually takes one round trip.
--
-- KEYS: the log of admissions, the meter's state, the daily counts, and the floor of the key's lineage. They have the
--       same hash tag, so that a Redis cluster stores them in one slot.
-- ARGV: perMin; the instant in microseconds and the day, both empty except in tests that use their own
--       clock; a day's total in the store and this day, both empty if no total has been read yet; the
--       horizon that every server has reached, empty with a single server; the primary's horizon, empty
--       if it has not been read yet.
-- Returns {wait in microseconds} if the request is refused, {0, day, count, horizon} if it is admitted, or
-- {-1, day, 1 or 0, 1 or 0} if the caller must supply the day's total (first flag) or the primary's horizon
-- (second flag).

local MINUTE = 60000000
local per_min = tonumber(ARGV[1])
local now, day
if ARGV[2] == '' then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000000 + tonumber(time[2])
    day = math.floor((tonumber(time[1]) + 7 * 3600) / 86400)
else
    now, day = tonumber(ARGV[2]), tonumber(ARGV[3])
end

-- If the clock has stepped back, continue from the latest admission, so that instants never decrease.
local state = redis.call('HMGET', KEYS[2], 'at', 'ahead')
local latest, ahead = tonumber(state[1]) or 0, tonumber(state[2]) or 0
now = now + ahead
if now < latest then
    ahead = ahead + latest - now
    now = latest
    redis.call('HSET', KEYS[2], 'ahead', string.format('%.0f', ahead))
end

-- The perMin-th latest admission must be at least a minute old. The current perMin applies, even if it has changed.
local blocking = redis.call('LINDEX', KEYS[1], -per_min)
if blocking and tonumber(blocking) + MINUTE > now then
    return { tonumber(blocking) + MINUTE - now }
end

local total_missing = redis.call('HEXISTS', KEYS[3], day) == 0
local horizon, horizon_missing = 0, false
if ARGV[6] ~= '' then
    horizon = tonumber(redis.call('GET', KEYS[4]))
    horizon_missing = not horizon
end
-- A new day may have begun since the caller read the total.
local has_total = tonumber(ARGV[5]) == day
if (total_missing and not has_total) or (horizon_missing and ARGV[7] == '') then
    return { -1, day, total_missing and 1 or 0, horizon_missing and 1 or 0 }
end

if total_missing then
    redis.call('HSET', KEYS[3], day, ARGV[4])
    for _, kept in ipairs(redis.call('HKEYS', KEYS[3])) do
        if tonumber(kept) < day - 8 then
            redis.call('HDEL', KEYS[3], kept)
        end
    end
end
local count = redis.call('HINCRBY', KEYS[3], day, 1)
redis.call('RPUSH', KEYS[1], string.format('%.0f', now))
redis.call('HSET', KEYS[2], 'at', string.format('%.0f', now))

-- Each admission deletes at most three of the oldest entries, so that no request has to delete many.
for _ = 1, 3 do
    local oldest = redis.call('LINDEX', KEYS[1], 0)
    if tonumber(oldest) > now - MINUTE then
        break
    end
    redis.call('LPOP', KEYS[1])
end
-- A lineage is never given an older horizon than before. If its floor is not known, the primary's horizon is used,
-- because no client can have been given a newer one.
if ARGV[6] ~= '' then
    local given = math.max(horizon or tonumber(ARGV[7]), tonumber(ARGV[6]))
    if given ~= horizon then
        redis.call('SET', KEYS[4], string.format('%.0f', given), 'EX', 600)
        horizon = given
    end
end
redis.call('EXPIRE', KEYS[1], 3600)
redis.call('EXPIRE', KEYS[2], 86400)
redis.call('EXPIRE', KEYS[3], 10 * 86400)
return { 0, day, count, horizon }
