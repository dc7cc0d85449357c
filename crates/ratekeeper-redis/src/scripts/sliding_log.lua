-- The sliding window log over p microseconds: a list whose head tells of the whole, followed by the
-- moments with their units, oldest first. Neither a sum nor an expiry walks over what stays.
-- Head: the moment last written, the key's offset, the units in use, the window; then, in another
-- generation than 0, that generation and the capacity.
local function sliding_log()
  local M = {}
  local head_form, entry_form = '^(%d+) (%-?%d+) (%d+) (%d+)(.*)$', '^(%d+) (%d+)$'
  local generation_form = '^ (%d+) (%d+)$'

  local function entry(text)
    local at, units = string.match(text or '', entry_form)
    return tonumber(at), tonumber(units)
  end

  -- Calls visit(at, units) for each entry that has not expired until it returns true.
  local function walk(e, visit)
    local from, count = e.trim + 1, 1
    while not e.empty do
      local chunk = redis.call('LRANGE', e.name, from, from + count - 1)
      for i = 1, #chunk do
        if visit(entry(chunk[i])) then
          return
        end
      end
      if #chunk < count then
        return
      end
      from, count = from + count, 64
    end
  end

  local function clear(e)
    e.empty, e.trim, e.used, e.newest, e.newest_units = true, 0, 0, nil, 0
  end

  -- Forgets what no longer counts under a window of p; written later.
  local function expire(e, p)
    if e.empty then
      return
    elseif e.newest + p <= e.v then
      clear(e)
      e.repaired = true
      return
    end
    walk(e, function(at, units)
      if at + p > e.v then
        return true
      end
      e.trim, e.used, e.repaired = e.trim + 1, e.used - units, true
    end)
  end

  function M.load(name)
    local e = { name = name, v = now, ahead = 0, off = 0, p = 0, generation = 0, added = 0, log = true }
    local text = redis.call('LINDEX', name, 0)
    e.exists = text and true
    local last, off, used, p, rest = string.match(text or '', head_form)
    local generation, cap = string.match(rest or '', generation_form)
    if rest ~= '' and not generation then
      last = nil
    end
    clear(e)
    e.newest, e.newest_units = entry(last and redis.call('LINDEX', name, -1))
    if not e.newest then
      e.repaired = e.exists
      return e
    end
    e.empty, e.used, e.p = false, tonumber(used), tonumber(p)
    e.generation, e.cap = tonumber(generation or 0), tonumber(cap or 0)
    keep_time(e, tonumber(last), tonumber(off))
    return e
  end

  -- Brings the log under a window of p, unless a newer generation counts it. Returns the window and
  -- the capacity that decide.
  function M.see(e, p, cap, generation)
    expire(e, e.p)
    if e.generation > generation and not (e.empty and e.added == 0) then
      return e.p, e.cap
    end
    if e.generation ~= generation or (generation > 0 and e.cap ~= cap) then
      e.repaired = e.repaired or e.exists
    end
    e.generation, e.cap = generation, cap
    if e.p ~= p then
      e.repaired = e.repaired or e.exists
      e.p = p
      expire(e, p)
    end
    return p, cap
  end

  -- Returns the time until this many units will have left.
  local function leave(e, units)
    local gone = e.v
    walk(e, function(at, more)
      gone, units = at, units - more
      return units <= 0
    end)
    if units > 0 then
      gone = e.v
    end
    return gone + e.p - e.v
  end

  -- Returns nothing when n more units fit, or the time until they do; -1 is never.
  function M.wait(e, cap, n)
    local together = n + e.added
    if n == 0 or together <= cap - e.used then
      return nil
    end
    return together > cap and -1 or leave(e, e.used + together - cap)
  end

  function M.report(e, cap, charged)
    local used = e.used + (charged and e.added or 0)
    local reset = e.newest and e.newest + e.p - e.v or 0
    if charged and e.added > 0 then
      reset = e.p
    end
    local next = 0
    if used > 0 then
      next = leave(e, math.max(1, used - cap + 1))
    end
    return used, reset, next
  end

  local function head(e)
    local text = string.format('%.0f %.0f %.0f %.0f', e.v, e.off, e.used, e.p)
    if e.generation > 0 then
      text = string.format('%s %.0f %.0f', text, e.generation, e.cap)
    end
    return text
  end

  -- Writes the log with `added` more units.
  function M.write(e, added)
    e.used = e.used + added
    if e.empty then
      if e.exists then
        redis.call('DEL', e.name)
      end
      if added == 0 then
        return
      end
      redis.call('RPUSH', e.name, head(e))
    else
      -- Over the last expired entry, so that the first write is one that a full server refuses.
      redis.call('LSET', e.name, e.trim, head(e))
      if e.trim > 0 then
        redis.call('LTRIM', e.name, e.trim, -1)
      end
    end
    if added > 0 then
      if e.newest == e.v then
        e.newest_units = e.newest_units + added
        redis.call('LSET', e.name, -1, string.format('%.0f %.0f', e.v, e.newest_units))
      else
        e.newest, e.newest_units = e.v, added
        redis.call('RPUSH', e.name, string.format('%.0f %.0f', e.v, added))
      end
    end
    e.empty, e.exists, e.trim = false, true, 0
    expire_key(e.name, e.newest + e.p - e.v)
  end

  -- Gives back up to n units of the entry charged at `stamp`. The log has been written.
  local function refund(e, n, stamp)
    local low, high = 1, redis.call('LLEN', e.name) - 1
    while low <= high do
      local middle = math.floor((low + high) / 2)
      local text = redis.call('LINDEX', e.name, middle)
      local at, units = entry(text)
      if at == stamp then
        local returned = math.min(n, units)
        e.used = e.used - returned
        if returned < units then
          redis.call('LSET', e.name, middle, string.format('%.0f %.0f', at, units - returned))
        else
          redis.call('LREM', e.name, -1, text)
        end
        e.newest, e.newest_units = entry(redis.call('LINDEX', e.name, -1))
        e.empty = not e.newest
        return
      elseif at < stamp then
        low = middle + 1
      else
        high = middle - 1
      end
    end
  end

  -- Ends a charge; returns the units that were not charged.
  function M.settle(e, cap, returned, charged, stamp, debt)
    if returned > 0 and not e.empty then
      M.write(e, 0)
      refund(e, returned, stamp)
    end
    local taken = math.min(charged, math.max(0, cap + debt - e.used))
    M.write(e, taken)
    return charged - taken
  end

  return M
end
