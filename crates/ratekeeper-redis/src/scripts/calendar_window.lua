-- The fixed window on the calendar: p says which unit (1 minute, 2 hour, 3 day, 4 week, 5 month,
-- 6 year), u how many seconds east of UTC. It counts by the calendar, not by the key's own time.
-- State: a, the start of the window, and b, the units charged in it.
local function calendar_window()
  local M = {}
  local day = 86400

  -- Returns the day, counted from the epoch, on which a month begins. Years are counted from March,
  -- so that the leap day is the last of its year.
  local function first_of(year, month)
    if month <= 2 then
      year = year - 1
    end
    month = (month + 9) % 12
    local cycle = math.floor(year / 400)
    year = year - 400 * cycle
    local days = 365 * year + math.floor(year / 4) - math.floor(year / 100)
      + math.floor((153 * month + 2) / 5)
    return cycle * 146097 + days - 719468
  end

  -- Returns the year and the month that a day lies in.
  local function month_of(days)
    local year = 1970 + math.floor(days / 366)
    while first_of(year + 1, 1) <= days do
      year = year + 1
    end
    local month = 1
    while month < 12 and first_of(year, month + 1) <= days do
      month = month + 1
    end
    return year, month
  end

  local lengths = { 60, 3600, day, 7 * day }

  -- Returns the start and the end of the window that contains a moment; none starts before the epoch.
  local function window(s, at)
    local seconds = divide(at, 1000000) + s.u
    local start, stop
    local length = lengths[s.p]
    if length then
      -- The epoch was a Thursday, and weeks begin on Monday.
      local phase = s.p == 4 and 3 * day or 0
      start = math.floor((seconds + phase) / length) * length - phase
      stop = start + length
    else
      local year, month = month_of(math.floor(seconds / day))
      local next_year, next_month = year, month + 1
      if s.p == 6 then
        month, next_year, next_month = 1, year + 1, 1
      elseif month == 12 then
        next_year, next_month = year + 1, 1
      end
      start, stop = first_of(year, month) * day, first_of(next_year, next_month) * day
    end
    return math.max(0, start - s.u) * 1000000, math.max(0, stop - s.u) * 1000000
  end

  -- A step back of up to a second leaves the window that stood.
  local function stand(s)
    local at = now
    if s.a > now and s.a - now <= 1000000 then
      at = s.a
    end
    local start, stop = window(s, at)
    return start, stop, s.a >= start and s.b or 0
  end

  -- A longer step back moves the units into the window of the new time, or they would stay until it
  -- has caught up. Returns the start of that window, if there was one.
  function M.rebase(s)
    if s.b > 0 and s.a - now > 1000000 then
      local start = window(s, now)
      return start
    end
  end

  function M.admit(s, _, n)
    local start, _, count = stand(s)
    if n > s.cap - count then
      return nil
    end
    return start, count + n, 0
  end

  function M.report(s)
    local _, stop, count = stand(s)
    return stop - now, count
  end

  function M.stamp(s)
    return s.a
  end

  function M.fresh_in(s)
    if s.b == 0 then
      return 0
    end
    local _, stop = window(s, s.a)
    return stop - now
  end

  function M.charge(s, _, n, debt)
    local start, _, count = stand(s)
    local taken = math.min(n, math.max(0, s.cap + debt - count))
    return start, count + taken, 0, n - taken
  end

  function M.refund(s, _, n, stamp)
    local _, _, count = stand(s)
    if count == 0 or s.a ~= stamp then
      return s.a, s.b, 0
    end
    return s.a, math.max(0, count - n), 0
  end

  function M.used(s)
    local _, _, count = stand(s)
    return count
  end

  function M.with_used(s, _, n)
    local start = window(s, now)
    return start, n, 0
  end

  -- The count stays where the calendar does.
  function M.adopt(s, from, v)
    if s.p == from.p and s.u == from.u then
      return from.a, from.b, 0
    end
    return M.with_used(s, v, math.min(M.used(from), s.cap))
  end

  return M
end
