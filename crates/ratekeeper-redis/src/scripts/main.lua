-- The request: what to do, then six arguments a claim in the order of the keys: the algorithm, its
-- two numbers, the capacity, the cost, and flags (1 enforced, 2 the cost is only known later, and 4
-- for each generation of the numbers).
local makers = { b = bucket, w = fixed_window, c = calendar_window, s = sliding_counter, l = sliding_log }
local made = {}
local function algorithm(kind)
  local M = made[kind]
  if not M then
    M = makers[kind]()
    made[kind] = M
  end
  return M
end

-- Fills in the numbers that a state was counted by, which nobody needs while they are the claim's.
local function spell_out(s)
  if not s.cap then
    local kind, p, u, cap = string.match(s.numbers, '^(%a) (%d+) (%-?%d+) (%d+)$')
    s.kind, s.p, s.u, s.cap = kind, tonumber(p), tonumber(u), tonumber(cap)
  end
  return s
end

-- Returns the state of a key as these numbers see it: where others counted it, the units in use stay.
-- One that a newer generation counted stays as it is, and so do the numbers with it, until it is fresh.
local function see(s, e, kind, numbers, p, u, cap, generation)
  if s and s.generation > generation and algorithm(spell_out(s).kind).fresh_in(s, e.v) > 0 then
    kind, numbers, p, u, cap, generation = s.kind, s.numbers, s.p, s.u, s.cap, s.generation
  end
  local to = { kind = kind, numbers = numbers, p = p, u = u, cap = cap, generation = generation, a = 0, b = 0, c = 0 }
  local M = algorithm(kind)
  if s and s.numbers == numbers then
    s.kind, s.p, s.u, s.cap = kind, p, u, cap
    local start = M.rebase and M.rebase(s)
    if not start and s.generation == generation then
      return s
    end
    to.a, to.b, to.c = start or s.a, s.b, s.c
    return to
  end
  local from = s and algorithm(spell_out(s).kind)
  if not s or from.fresh_in(s, e.v) <= 0 then
    return to
  elseif s.kind == kind then
    to.a, to.b, to.c = M.adopt(to, s, e.v)
  else
    to.a, to.b, to.c = M.with_used(to, e.v, math.min(from.used(s, e.v), cap))
  end
  return to
end

local function write_state(e, s)
  local fresh_in = algorithm(spell_out(s).kind).fresh_in(s, e.v)
  if fresh_in > 0 then
    local text = print_state(e, s)
    redis.call('SET', e.name, text, 'PX', lifetime(fresh_in))
  elseif e.exists then
    redis.call('DEL', e.name)
  end
end

-- Writes a key that nobody charged: what was mended of it, and a time to live if it has none.
local function mend(e)
  if not e.exists then
    return
  elseif not e.repaired then
    if redis.call('PTTL', e.name) == -1 then
      local micros = e.log and e.newest + e.p - e.v
        or algorithm(spell_out(e.base).kind).fresh_in(e.base, e.v)
      expire_key(e.name, math.max(0, micros))
    end
  elseif e.log then
    algorithm('l').write(e, 0)
  elseif e.base then
    write_state(e, e.base)
  else
    redis.call('DEL', e.name)
  end
end

local entries = {}
local function entry_of(name, kind)
  local e = entries[name]
  if not e then
    e = kind == 'l' and algorithm('l').load(name) or load_state(name)
    entries[name] = e
  end
  return e
end

-- Brings a key under a claim's numbers. It is written back so even if nothing is charged, unless a
-- claim of this same request has a provisional charge on it.
local function enter(e, kind, numbers, p, u, cap, generation)
  local s = see(e.state, e, kind, numbers, p, u, cap, generation)
  if not e.provisional and s ~= e.state then
    e.repaired = e.repaired or e.base ~= nil
    e.base, e.state = s, s
  end
  return s
end

if arguments[1] == 's' then
  local kind, p, u, cap = arguments[2], tonumber(arguments[3]), tonumber(arguments[4]), tonumber(arguments[5])
  local returned, charged = tonumber(arguments[6]), tonumber(arguments[7])
  local stamp, debt, generation = tonumber(arguments[8]), tonumber(arguments[9]), tonumber(arguments[10])
  local e = entry_of(KEYS[1], kind)
  if kind == 'l' then
    local _, deciding = algorithm('l').see(e, p, cap, generation)
    if deciding ~= cap then
      debt = math.min(debt, deciding)
    end
    return algorithm('l').settle(e, deciding, returned, charged, stamp, debt)
  end
  local numbers = table.concat({ kind, arguments[3], arguments[4], arguments[5] }, ' ')
  local s = enter(e, kind, numbers, p, u, cap, generation)
  -- Newer numbers come without their debt: the usual one is the most that can be meant.
  if s.numbers ~= numbers then
    debt = math.min(debt, s.cap)
  end
  local M = algorithm(s.kind)
  local clipped = 0
  if returned > 0 and e.exists then
    s.a, s.b, s.c = M.refund(s, e.v, returned, stamp)
  end
  if charged > 0 then
    s.a, s.b, s.c, clipped = M.charge(s, e.v, charged, debt)
  end
  write_state(e, s)
  return clipped
end

-- Decide.
local claims, refused = {}, false
for i = 1, #KEYS do
  local at = 6 * i - 4
  local kind, p, u = arguments[at], tonumber(arguments[at + 1]), tonumber(arguments[at + 2])
  local cap, cost, flags = tonumber(arguments[at + 3]), tonumber(arguments[at + 4]), tonumber(arguments[at + 5])
  local generation = divide(flags, 4)
  local later = flags % 4 >= 2
  local e = entry_of(KEYS[i], kind)
  local claim = { e = e, kind = kind, cap = cap, p = p, u = u, admitted = true }
  claims[i] = claim
  if kind == 'l' then
    local M = algorithm(kind)
    claim.p, claim.cap = M.see(e, p, cap, generation)
    claim.newer = claim.p ~= p or claim.cap ~= cap
    claim.wait = M.wait(e, claim.cap, cost)
    claim.admitted = not claim.wait
    if claim.admitted and not later then
      e.added = e.added + cost
    end
  else
    local numbers = kind .. ' ' .. arguments[at + 1] .. ' ' .. arguments[at + 2] .. ' ' .. arguments[at + 3]
    local s = enter(e, kind, numbers, p, u, cap, generation)
    claim.before, claim.numbers = s, s.numbers
    if s.numbers ~= numbers then
      claim.newer, claim.kind, claim.p, claim.u, claim.cap = true, s.kind, s.p, s.u, s.cap
    end
    if cost > 0 then
      local a, b, c = algorithm(s.kind).admit(s, e.v, cost)
      claim.admitted = a ~= nil
      if a and not later then
        e.state = { numbers = s.numbers, kind = s.kind, p = s.p, u = s.u, cap = s.cap, a = a, b = b, c = c }
        e.state.generation = s.generation
        e.provisional = true
      elseif a then
        e.state = s
      end
    end
  end
  refused = refused or (not claim.admitted and flags % 2 == 1)
end

local charges = not refused and arguments[1] == 'a'

-- Answer: seven numbers a claim, then five for each that newer numbers decided: which claim, the
-- letter of their algorithm as a byte, and them.
local reply = {}
for i, claim in ipairs(claims) do
  local e, x, y, z, w = claim.e, 0, 0, 0, 0
  local stamp = e.v
  local M = algorithm(claim.kind)
  if claim.kind == 'l' then
    e.p = claim.p
    x, y, z = M.report(e, claim.cap, charges)
    w = claim.wait or 0
  else
    local s = claim.before
    if charges and e.provisional and e.state.numbers == claim.numbers then
      s = e.state
    end
    x, y, z = M.report(s, e.v)
    z = z or 0
    stamp = M.stamp(s, e.v)
  end
  local from = 7 * i - 6
  reply[from], reply[from + 1], reply[from + 2] = claim.admitted and 1 or 0, e.ahead, stamp
  reply[from + 3], reply[from + 4], reply[from + 5], reply[from + 6] = x, y, z, w
end

for i, claim in ipairs(claims) do
  if claim.newer then
    local from = #reply
    reply[from + 1], reply[from + 2], reply[from + 3] = i, string.byte(claim.kind), claim.p
    reply[from + 4], reply[from + 5] = claim.u, claim.cap
  end
end

-- Write.
for _, e in pairs(entries) do
  if charges and e.provisional then
    write_state(e, e.state)
  elseif charges and e.log and e.added > 0 then
    algorithm('l').write(e, e.added)
  else
    mend(e)
  end
end
return reply
