-- Stores the position and the horizons of a cursor. Returns 1, or 0 if the cursor already stands for another position.
--
-- KEYS: the cursor. ARGV: the position; the earliest horizon; the latest horizon; the time to live in seconds.

local held = redis.call('HMGET', KEYS[1], 'position', 'earliest', 'latest')
if held[1] and held[1] ~= ARGV[1] then
    return 0
end
local earliest, latest = tonumber(ARGV[2]), tonumber(ARGV[3])
if held[1] then
    earliest, latest = math.min(earliest, tonumber(held[2])), math.max(latest, tonumber(held[3]))
end
redis.call(
    'HSET', KEYS[1],
    'position', ARGV[1], 'earliest', string.format('%.0f', earliest), 'latest', string.format('%.0f', latest)
)
if redis.call('TTL', KEYS[1]) < tonumber(ARGV[4]) then
    redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return 1
