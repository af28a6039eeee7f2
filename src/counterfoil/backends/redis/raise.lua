-- Brings the count of a key's day up to what the store was told of it; says whether it had fallen behind.
--
-- KEYS: the counts by day. ARGV: the day, its total in the store.

local count = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if count >= tonumber(ARGV[2]) then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
