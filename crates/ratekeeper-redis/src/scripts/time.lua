-- The time in microseconds since the epoch, by the server's clock and read once.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Milliseconds that a key outlives its time to full.
local slack = 1000
