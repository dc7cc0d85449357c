-- Numbers are doubles: integers are exact below 2^53, and everything here stays below it.

-- Returns floor(x / y) and the rest, exactly for x < 2^52: no quotient lies so close below an
-- integer that it would be rounded up to it.
local function divide(x, y)
  local rest = x % y
  return (x - rest) / y, rest
end

-- Returns the time in which n units drain at u units per p microseconds: microseconds and a rest in
-- 1/u of one. For u < 2^26, so that the product of two rests stays exact.
local function span(n, p, u)
  local whole, part = divide(p, u)
  if n == 1 then
    return whole, part
  end
  local times, left = divide(n, u)
  local more, rest = divide(left * part, u)
  return n * whole + times * part + more, rest
end

-- Arithmetic whose products do not fit; made when it is needed, which is seldom.
local function wide()
  local M = {}

  -- Returns floor(x·y / z) and the rest, for x < z < 2^52: the long multiplication, bit by bit.
  function M.scale(x, y, z)
    local bits, quotient, rest = {}, 0, 0
    while y > 0 do
      y, bits[#bits + 1] = divide(y, 2)
    end
    for i = #bits, 1, -1 do
      quotient, rest = quotient * 2, rest * 2
      if rest >= z then
        quotient, rest = quotient + 1, rest - z
      end
      if bits[i] == 1 then
        rest = rest + x
        if rest >= z then
          quotient, rest = quotient + 1, rest - z
        end
      end
    end
    return quotient, rest
  end

  -- Returns whether a/b <= c/d: compares their whole parts, then the inverses of their rests.
  function M.at_most(a, b, c, d)
    while true do
      local whole, rest = divide(a, b)
      local other_whole, other_rest = divide(c, d)
      if whole ~= other_whole then
        return whole < other_whole
      elseif rest == 0 then
        return true
      elseif other_rest == 0 then
        return false
      end
      a, b, c, d = d, other_rest, b, rest
    end
  end

  -- Returns the units that drain in q + r/u microseconds, and the rest of one in 1/u microseconds.
  function M.units(q, r, p, u)
    local whole, left = divide(q, p)
    local more, rest = M.scale(left, u, p)
    local carry
    carry, rest = divide(rest + r, p)
    return whole * u + more + carry, rest
  end

  return M
end
