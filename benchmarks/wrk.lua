-- Posts the files DIR/1, DIR/2, ... in turn, and prints what came of it as one line of JSON.
-- In the environment: WRK_BODIES is DIR, WRK_COUNT how many there are, WRK_HEADERS "Name: value" lines, and WRK_PATHS
-- a line for each of them, or nothing where all go to the one address.
local folder, count, turn = os.getenv("WRK_BODIES"), tonumber(os.getenv("WRK_COUNT")), 0
local requests, paths = {}, {}

local function read(number)
  local file = assert(io.open(folder .. "/" .. number, "rb"))
  local body = file:read("*a")
  file:close()
  return body
end

for name, value in os.getenv("WRK_HEADERS"):gmatch("([^:\n]+): ([^\n]*)") do
  wrk.headers[name] = value
end

for path in os.getenv("WRK_PATHS"):gmatch("[^\n]+") do
  paths[#paths + 1] = path
end

function init(_)
  for number = 1, count do
    requests[number] = wrk.format("POST", paths[number], nil, read(number))
  end
end

function request()
  turn = turn % count + 1
  return requests[turn]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '\n{"answered": %d, "refused": %d, "broken": %d, "seconds": %.6f, "p50": %.3f, "p99": %.3f, "p999": %.3f}\n',
    summary.requests, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, latency:percentile(99.9) / 1e3))
end
