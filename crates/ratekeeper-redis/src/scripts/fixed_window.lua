-- The fixed window of p microseconds that starts with a key's first request.
-- State: a, its start, and b, the units charged in it.
local function fixed_window()
  local M = {}

  local function stand(s, v)
    if s.b == 0 or v >= s.a + s.p then
      return v, 0
    end
    return s.a, s.b
  end

  function M.admit(s, v, n)
    local start, count = stand(s, v)
    if n > s.cap - count then
      return nil
    end
    return start, count + n, 0
  end

  function M.report(s, v)
    local start, count = stand(s, v)
    return start + s.p - v, count
  end

  function M.stamp(s)
    return s.a
  end

  function M.fresh_in(s, v)
    local start, count = stand(s, v)
    return count > 0 and start + s.p - v or 0
  end

  function M.charge(s, v, n, debt)
    local start, count = stand(s, v)
    local taken = math.min(n, math.max(0, s.cap + debt - count))
    return start, count + taken, 0, n - taken
  end

  function M.refund(s, v, n, stamp)
    local start, count = stand(s, v)
    if count == 0 or start ~= stamp then
      return s.a, s.b, 0
    end
    return start, math.max(0, count - n), 0
  end

  function M.used(s, v)
    local _, count = stand(s, v)
    return count
  end

  function M.with_used(_, v, n)
    return v, n, 0
  end

  -- The start stays, and so does the count, even above the capacity.
  function M.adopt(_, from)
    return from.a, from.b, 0
  end

  return M
end
