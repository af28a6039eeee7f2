-- Remembers the position and the horizon of a cursor; says whether it could: 0 if it stands for another position.
--
-- KEYS: the cursor. ARGV: the position; the horizon; 1 if the latest horizon serves all holders, 0 if the earliest
-- does; for how many seconds.

local held = redis.call('HMGET', KEYS[1], 'position', 'horizon')
if held[1] and held[1] ~= ARGV[1] then
    return 0
end
local horizon = tonumber(ARGV[2])
if held[2] then
    local choose = ARGV[3] == '1' and math.max or math.min
    horizon = choose(horizon, tonumber(held[2]))
end
redis.call('HSET', KEYS[1], 'position', ARGV[1], 'horizon', string.format('%.0f', horizon))
if redis.call('TTL', KEYS[1]) < tonumber(ARGV[4]) then
    redis.call('EXPIRE', KEYS[1], ARGV[4])
end
return 1
