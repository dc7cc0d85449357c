-- The short way of the most usual request: one bucket, enforced, at a cost known now. Whatever is
-- unusual about the key or the numbers, or of another generation, goes the long way below, which
-- decides alike; so far nothing has been written. Levels are counted in 1/u microseconds, and those
-- above 2^53 go the long way.
local arguments = ARGV
if ARGV[1] == '1' then
  local numbers, n, p, u, cap = ARGV[2], ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
  local text = redis.call('GET', KEYS[1])
  local last, level = 0, 0
  if text then
    last, level = string.match(text, '^' .. numbers .. ' (%d+) (%d+)$')
  end
  if last and now >= last + 0 and n > 0 and cap * p < 9007199254740992 then
    level = level - (now - last) * u
    if level < 0 then
      level = 0
    end
    local after = level + n * p
    if n <= cap and after <= cap * p then
      local millis = after / (1000 * u)
      local part = millis % 1
      if part > 0 then
        millis = millis - part + 1
      end
      text = string.format('%s %.0f %.0f', numbers, now, after)
      redis.call('SET', KEYS[1], text, 'PX', millis + slack)
      return { 1, now, after }
    elseif redis.call('PTTL', KEYS[1]) ~= -1 then
      return { 0, now, level }
    end
  end
  -- Another generation than 0 stands in front of the numbers.
  local generation = string.match(numbers, '^g(%d+) ') or 0
  arguments = { 'a', 'b', ARGV[4], ARGV[5], ARGV[6], ARGV[3], 4 * generation + 1 }
end

