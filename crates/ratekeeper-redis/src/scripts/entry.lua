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

-- Whole numbers below 2^53 reach a command as they are.
local function lifetime(micros)
  return math.ceil(micros / 1000) + slack
end

local function expire_key(name, micros)
  redis.call('PEXPIRE', name, lifetime(micros))
end

-- Reads a key: its numbers, when it was last written, and three words of state, of which the third
-- and the offset are left out while both are zero. A bucket's level may stand for its words. A
-- generation other than 0 stands in front.
local generation_form = '^g(%d+) (.*)$'
local level_form = '^(b %d+ (%d+) %d+) (%d+) (%d+)$'
local short_form = '^(%a %d+ %-?%d+ %d+) (%d+) (%d+) (%d+)$'
local long_form = '^(%a %d+ %-?%d+ %d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+)$'

local function read_state(text)
  local c, off = 0, 0
  local generation, rest = string.match(text, generation_form)
  generation, text = tonumber(generation or 0), rest or text
  local numbers, u, last, level = string.match(text, level_form)
  if numbers then
    local q, r = divide(tonumber(level), tonumber(u))
    return numbers, tonumber(last), last + q, r, c, off, generation
  end
  local a, b
  numbers, last, a, b = string.match(text, short_form)
  if not numbers then
    numbers, last, a, b, c, off = string.match(text, long_form)
  end
  return numbers, tonumber(last), tonumber(a), tonumber(b), tonumber(c), tonumber(off), generation
end

local function load_state(name)
  local e = { name = name, v = now, ahead = 0, off = 0 }
  local text = redis.call('GET', name)
  if text then
    local numbers, last, a, b, c, off, generation = read_state(text)
    e.exists, e.repaired = true, not numbers
    if numbers then
      keep_time(e, last, off)
      e.base = { numbers = numbers, generation = generation, a = a, b = b, c = c }
      e.state = e.base
    end
  end
  return e
end

local function print_state(e, s)
  local level = (s.a - e.v) * s.u + s.b
  local numbers = s.numbers
  if s.generation > 0 then
    numbers = string.format('g%.0f %s', s.generation, numbers)
  end
  if s.kind == 'b' and e.off == 0 and level < 9007199254740992 then
    return string.format('%s %.0f %.0f', numbers, e.v, level)
  elseif s.c == 0 and e.off == 0 then
    return string.format('%s %.0f %.0f %.0f', numbers, e.v, s.a, s.b)
  end
  return string.format('%s %.0f %.0f %.0f %.0f %.0f', numbers, e.v, s.a, s.b, s.c, e.off)
end
