-- The time from the caller, for tests alone: see the feature `__test-clock`. Keys outlive it, since
-- the server expires them by its own clock.
local now = tonumber(ARGV[#ARGV])
local slack = 3600000
