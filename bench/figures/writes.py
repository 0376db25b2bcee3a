"""The phase `writes`: writes over the API at full rate, and the latency of queries meanwhile."""
import os, re, statistics, subprocess, time

from . import servers
from .declared import Api
from .machine import LOAD_CORE, spread, tool, write
from .servers import ORIGIN

# As many connections as one client may have open, and names that are written to in turn.
WRITERS, NAMES = 32, 1_000
RATE = 20_000
# Seconds after writes, before something else is measured.
REST = 2
# Each request declares 1 kB of new data.
SCRIPT = f"""local n = 0
request = function()
  n = n + 1
  local name = "w" .. (n % {NAMES}) .. ".{ORIGIN}"
  local part = string.rep(string.format("%010d", n), 24)
  local text = string.rep('\\\\"' .. part .. '\\\\" ', 4)
  local body = '{{"name": "' .. name .. '", "sets": [{{"type": "TXT", "ttl": "60s", "data": ["' .. text .. '"]}}]}}'
  return wrk.format("PUT", "/v1/records/" .. name, {{ ["Content-Type"] = "application/json" }}, body)
end
"""


def writes(bench):
    """Measures p99 in windows with and without writes at full rate, and of the limit, all at one rate of queries."""
    limit_port = bench.next_port()
    _, limit_pid = bench.start("limit", servers.limit(limit_port), f"n0000001.{ORIGIN}")
    folder, port, http = bench.folder("writes"), bench.next_port(), bench.next_port()
    write(f"{folder}/zone", tool("workload", "zone", "--names", NAMES, "--origin", ORIGIN))
    command = servers.serve(folder, f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "127.0.0.1:{http}" }}
udp: {{ workers: 1 }}
zones: [{{ name: {ORIGIN}, file: zone }}]
""")
    _, pid = bench.start("fairway", command, f"n0000001.{ORIGIN}", port=port)
    script = write(f"{bench.work}/writes.lua", SCRIPT)
    queries, found, rates, wrong, untimed = bench.queries(NAMES), {"limit": [], "quiet": [], "writes": []}, [], 0, []
    for _ in range(max(bench.options.rounds, 9)):
        for state, windows in found.items():
            writer = start_writing(http, script) if state == "writes" else None
            where = (limit_port, limit_pid) if state == "limit" else (port, pid)
            done = bench.load(*where, queries, "--rate", RATE, "--dur", 1.5, "--warm", 0.5, echo=state == "limit")
            windows.append(done["p99_us"])
            wrong += done["wrong"]
            untimed.append(100 * done["untimed"])
            if writer:
                rates.append(acknowledged(writer))
                # The system still writes to the disk, on the same cores; the next windows must be quiet.
                os.sync()
                time.sleep(REST)
    first = Api(folder).ask("GET", f"/v1/records/w1.{ORIGIN}", None)[0]
    if first["name"] != f"w1.{ORIGIN}":
        raise RuntimeError(f"what was written is not there: {first}")
    bench.stop_all()
    limit, quiet, busy = (statistics.median(v) for v in found.values())
    rows = [[state, spread(windows, 0), f"{statistics.median(windows) / limit:.2f}"] for state, windows in found.items()]
    bench.print(f"### p99 at {RATE:,} queries a second, with {WRITERS} clients that declare records of 1 kB and without\n")
    bench.table(["windows", "p99 µs", "of the limit's"], rows)
    bench.print(f"Writes acknowledged a second, durable and in the answers: {spread(rates, 0)}. Wrong answers: {wrong}. "
                f"Not timed (see *untimed*): {spread(untimed, 1)} %\n")
    bench.mark("p99 while the API takes its full write load, times the quiet one", busy / quiet, 1.5, places=2)


def start_writing(http, script):
    # At a lower priority than the load generator, whose timing must not be delayed.
    command = ["nice", "-n", "19", "taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{WRITERS}", "-d3s", "-s", script, f"http://127.0.0.1:{http}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def acknowledged(writer):
    """Returns the writes per second of a run without errors."""
    out, _ = writer.communicate(timeout=30)
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(f"writes failed:\n{out}")
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
