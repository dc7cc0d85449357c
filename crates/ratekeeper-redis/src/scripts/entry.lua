-- Every key has a time of its own, which never goes back: the server's plus an offset. A step back of
-- the server's clock by up to a second is waited out; a longer one goes into the offset, so that the
-- key keeps its level and its promises count from the new time.
local function keep_time(e, last, off)
  local v = now + off
  if v < last then
    if last - v <= 1000000 then
      e.ahead = last - v
    else
      off, e.repaired = off + last - v, true
    end
    v = last
  end
  e.v, e.off = v, off
end

local function lifetime(micros)
  return string.format('%.0f', math.ceil(micros / 1000) + slack)
end

local function expire_key(name, micros)
  redis.call('PEXPIRE', name, lifetime(micros))
end

-- Reads a key: its numbers, when it was last written, its offset, and three words of state.
local state_form = '^(%a %d+ %-?%d+ %d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+)$'

local function load_state(name)
  local e = { name = name, v = now, ahead = 0, off = 0 }
  local text = redis.call('GET', name)
  if text then
    local numbers, last, off, a, b, c = string.match(text, state_form)
    e.exists, e.repaired = true, not numbers
    if numbers then
      keep_time(e, tonumber(last), tonumber(off))
      e.base = { numbers = numbers, a = tonumber(a), b = tonumber(b), c = tonumber(c) }
      e.state = e.base
    end
  end
  return e
end
