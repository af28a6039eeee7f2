-- Raises a key's day count to its total in the store. Returns 1 if the count was lower, otherwise 0.
--
-- KEYS: the counts by day. ARGV: the day, its total in the store.

local count = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if count >= tonumber(ARGV[2]) then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
