-- The sliding window counter: windows of p microseconds, the earlier one weighted by how much of it
-- is in reach. A cost fits when previous·(p − elapsed) + (current + cost)·p <= cap·p.
-- State: a, the start of the present window, b, the previous one's units, c, this one's.
local function sliding_counter()
  local M = {}

  local function roll(s, v)
    if v < s.a + s.p and (s.b > 0 or s.c > 0) then
      return s.a, s.b, s.c
    elseif v < s.a + 2 * s.p and s.c > 0 then
      return s.a + s.p, s.c, 0
    end
    return v, 0, 0
  end

  -- Returns whether previous·left <= free·p.
  local function fits(previous, left, free, p)
    local weight, room = previous * left, free * p
    if previous == 0 then
      return true
    elseif weight < 9007199254740992 and room < 9007199254740992 then
      return weight <= room
    end
    return wide().at_most(left, p, free, previous)
  end

  function M.admit(s, v, n)
    local start, previous, current = roll(s, v)
    local free = s.cap - current - n
    if free < 0 or not fits(previous, start + s.p - v, free, s.p) then
      return nil
    end
    return start, previous, current + n
  end

  function M.report(s, v)
    local start, previous, current = roll(s, v)
    return v - start, previous, current
  end

  function M.stamp(s)
    return s.a
  end

  function M.fresh_in(s, v)
    local start, previous, current = roll(s, v)
    if current > 0 then
      return start + 2 * s.p - v
    end
    return previous > 0 and start + s.p - v or 0
  end

  -- Returns the units that count now, the weighted part rounded up.
  local function counted(start, previous, current, v, p)
    local left = start + p - v
    if left >= p then
      return current + previous
    end
    local units, rest = wide().scale(left, previous, p)
    return current + units + (rest > 0 and 1 or 0)
  end

  function M.charge(s, v, n, debt)
    local start, previous, current = roll(s, v)
    local room = s.cap + debt - counted(start, previous, current, v, s.p)
    local taken = math.min(n, math.max(0, room))
    return start, previous, current + taken, n - taken
  end

  function M.refund(s, v, n, stamp)
    local start, previous, current = roll(s, v)
    if start == stamp then
      return start, previous, math.max(0, current - n)
    elseif start == stamp + s.p then
      return start, math.max(0, previous - n), current
    end
    return s.a, s.b, s.c
  end

  function M.used(s, v)
    local start, previous, current = roll(s, v)
    return counted(start, previous, current, v, s.p)
  end

  function M.with_used(_, v, n)
    return v, 0, n
  end

  function M.adopt(_, from)
    return from.a, from.b, from.c
  end

  return M
end
