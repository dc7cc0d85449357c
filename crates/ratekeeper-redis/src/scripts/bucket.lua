-- The leaky bucket as a meter and the token bucket: u units drain in p microseconds.
-- State: a, the moment at which it will have drained, and b, the rest of it in 1/u microseconds.
local function bucket()
  local M = {}

  local function level(s, v)
    if s.a < v then
      return 0, 0
    end
    return s.a - v, s.b
  end

  local function above(q, r, other_q, other_r)
    return q > other_q or (q == other_q and r > other_r)
  end

  local function add(q, r, more_q, more_r, u)
    q, r = q + more_q, r + more_r
    if r >= u then
      return q + 1, r - u
    end
    return q, r
  end

  -- Down to zero.
  local function subtract(q, r, less_q, less_r, u)
    if not above(q, r, less_q, less_r) then
      return 0, 0
    end
    q, r = q - less_q, r - less_r
    if r < 0 then
      return q - 1, r + u
    end
    return q, r
  end

  function M.admit(s, v, n)
    if n > s.cap then
      return nil
    end
    local q, r = level(s, v)
    local more_q, more_r = span(n, s.p, s.u)
    q, r = add(q, r, more_q, more_r, s.u)
    local most_q, most_r = span(s.cap, s.p, s.u)
    if above(q, r, most_q, most_r) then
      return nil
    end
    return v + q, r, 0
  end

  function M.report(s, v)
    return level(s, v)
  end

  function M.stamp(_, v)
    return v
  end

  function M.fresh_in(s, v)
    local q, r = level(s, v)
    return r > 0 and q + 1 or q
  end

  function M.charge(s, v, n, debt)
    local most = s.cap + debt
    local clipped = math.max(0, n - most)
    local q, r = level(s, v)
    local wanted_q, wanted_r = span(n - clipped, s.p, s.u)
    local most_q, most_r = span(most, s.p, s.u)
    local room_q, room_r = subtract(most_q, most_r, q, r, s.u)
    if above(wanted_q, wanted_r, room_q, room_r) then
      local over_q, over_r = subtract(wanted_q, wanted_r, room_q, room_r, s.u)
      clipped = clipped + wide().units(over_q, over_r, s.p, s.u)
      wanted_q, wanted_r = room_q, room_r
    end
    q, r = add(q, r, wanted_q, wanted_r, s.u)
    return v + q, r, 0, clipped
  end

  -- Gives back what has not drained since. A stamp from later than now is of a key since forgotten.
  function M.refund(s, v, n, stamp)
    if stamp > v then
      return s.a, s.b, 0
    end
    local left_q, left_r = span(math.min(n, s.cap), s.p, s.u)
    left_q, left_r = subtract(left_q, left_r, v - stamp, 0, s.u)
    local q, r = level(s, v)
    q, r = subtract(q, r, left_q, left_r, s.u)
    return v + q, r, 0
  end

  function M.used(s, v)
    local q, r = level(s, v)
    local units, rest = wide().units(q, r, s.p, s.u)
    return rest > 0 and units + 1 or units
  end

  function M.with_used(s, v, n)
    local q, r = span(n, s.p, s.u)
    return v + q, r, 0
  end

  -- Another bucket's level in this one. What is in use stays in units, up to the capacity of the
  -- slower of the two; what is beyond stays in time, so that it goes away at the faster rate and
  -- going back finds all of it. Fractions are rounded up.
  function M.adopt(s, from, v)
    local W = wide()
    local q, r = level(from, v)
    local is_slower = not W.at_most(s.p, s.u, from.p, from.u)
    local shared_q, shared_r = span(is_slower and s.cap or from.cap, from.p, from.u)
    local beyond_q, beyond_r = subtract(q, r, shared_q, shared_r, from.u)
    if beyond_q > 0 or beyond_r > 0 then
      q, r = shared_q, shared_r
    end
    local units, part = W.units(q, r, from.p, from.u)
    q, r = span(units, s.p, s.u)
    if part > 0 then
      local rest
      part, rest = W.scale(part, s.p, from.p)
      part, rest = divide(rest > 0 and part + 1 or part, s.u)
      q, r = add(q, r, part, rest, s.u)
    end
    local whole, rest = divide(beyond_r * s.u, from.u)
    whole, rest = divide(rest > 0 and whole + 1 or whole, s.u)
    q, r = add(q, r, beyond_q + whole, rest, s.u)
    return v + q, r, 0
  end

  return M
end
