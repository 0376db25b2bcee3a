"""The phases of `bench/run`: instructions, CPU per query, failover, the cost of health checks."""
import json, subprocess

from . import servers, tripwire
from .machine import BIN, Watch, peak_mb, pss_mb
from .servers import HEALTH_PORT, ORIGIN


def static(bench):
    names = bench.options.names
    zone, queries = bench.zone(names), bench.queries(names)
    commands = {"limit": servers.limit}
    for name in ["fairway", *bench.options.peers]:
        commands[name] = lambda port, name=name: servers.static(name)(bench.folder(f"static-{name}"), port, zone)
    shares = bench.compare(f"Static zone of {names} names", commands, queries, f"n0000001.{ORIGIN}")
    bench.mark(f"of limit, {names:,} static names", shares["fairway"], 0.95, at_least=True, places=3)


def steered(bench):
    names = bench.options.names
    queries = bench.queries(names, "s")
    bench.targets()
    commands = {"limit": servers.limit,
                "fairway": lambda port: servers.fairway_steered(bench.folder("steered-fairway"), port, "fairway", names)}
    if "gdnsd" in bench.options.peers:
        commands["gdnsd"] = lambda port: servers.gdnsd_steered(bench.folder("steered-gdnsd"), port, "gdnsd-pools", names)
    if "knot" in bench.options.peers:
        commands["knot"] = lambda port: servers.knot_steered(bench.folder("steered-knot"), port, names)
    title = f"{names} steered names: weighted pools of three, HTTP health checks (knot: without checks)"
    shares = bench.compare(title, commands, queries, f"s0000001.{ORIGIN}")
    bench.mark(f"of limit, health-checked weighted, {names:,} names", shares["fairway"], 0.92, at_least=True, places=3)


def ecs(bench):
    """Measures queries with a client subnet, which must come back with a scope."""
    names = bench.options.names
    bench.targets()
    commands = {"limit": lambda port: servers.limit(port, ecs=True),
                "fairway": lambda port: servers.fairway_steered(bench.folder("ecs-fairway"), port, "fairway", names)}
    title = f"{names} steered names, a client subnet in every query"
    shares = bench.compare(title, commands, bench.queries(names, "s"), f"s0000001.{ORIGIN}", "--ecs")
    bench.mark(f"of limit, weighted, ECS in every query, {names:,} names", shares["fairway"], 0.85, at_least=True, places=3)


def limited(bench):
    """Measures what `rateLimit` and cookies cost if nobody attacks: the limit is never reached, but each response is counted."""
    names = bench.options.names
    zone, queries = bench.zone(names), bench.queries(names)
    settings = {"fairway": "cookies: off\n", "fairway-limited": "rateLimit: { responsesPerSecond: 1000000, allPerSecond: 1000000, excessBytesPerSecond: 1000000000 }\n"}
    for title, *form in [("no cookies",), ("a cookie in every query", "--cookie")]:
        commands = {"limit": servers.limit}
        for name, more in settings.items():
            commands[name] = lambda port, name=name, more=more: servers.fairway(bench.folder(f"{name}{len(form)}"), port, zone, more)
        shares = bench.compare(f"Static zone of {names} names with `rateLimit` and cookies, {title}", commands, queries, f"n0000001.{ORIGIN}", *form)
        bench.mark(f"CPU with rateLimit and cookies, times that without, {title}", shares["fairway"] / shares["fairway-limited"], 1.05, places=3)


# Two starts with 10,000 pools differ by some millions of instructions; with more queries, less of that counts for each.
SHORT, LONG = 2_000, 102_000


def instr(bench):
    """Counts instructions of the whole server under callgrind: the difference of a long and a short run."""
    names = bench.options.names
    zone = bench.zone(names)
    kinds = {
        "static": (bench.queries(names), "n", 600, lambda folder: servers.fairway(folder, bench.next_port(), zone)),
        "weighted": (bench.queries(names, "s"), "s", 800,
                     lambda folder: servers.fairway_steered(folder, bench.next_port(), "fairway-always", names)),
    }
    rows = []
    for kind, (queries, prefix, most, command) in kinds.items():
        short, long = (under_callgrind(bench, f"instr-{kind}-{count}", command, queries, f"{prefix}0000001.{ORIGIN}", count)
                       for count in (SHORT, LONG))
        each = (long - short) / (LONG - SHORT)
        rows.append([kind, f"{each:.0f}"])
        bench.mark(f"user instructions per query, {kind}", each, most)
    bench.print("### User instructions per query of the whole server (callgrind, difference of two runs)\n")
    bench.table(["names", "instructions per query"], rows)


def under_callgrind(bench, name, command, queries, probe, count):
    out = f"{bench.work}/{name}.callgrind"
    command = command(bench.folder(name))
    bench.start(name, ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *command], probe, wait=300)
    subprocess.run([f"{BIN}/dnsgen", "--server", f"127.0.0.1:{bench.port}", "--file", queries, "--warm", "0", "--dur", "120",
                    "--count", str(count), "--window", "2", "--seed", "7", "--timeout", "5"], check=True, capture_output=True, timeout=200)
    bench.stop(name)
    return tripwire.total(out)


def kinds(bench):
    """Counts instructions of the answer path alone, each kind of answer relative to a plain hit."""
    counts = tripwire.measure(bench.work)
    bench.print("### User instructions per query of the answer path alone (`respond` under callgrind)\n")
    bench.table(["kind", "instructions", "of a hit"], [[k, f"{v:.0f}", f"{v / counts['hit']:.2f}"] for k, v in counts.items()])
    for kind in ("nxdomain", "nodata", "wildcard", "cname", "referral"):
        bench.mark(f"instructions of {kind}, times a hit's", counts[kind] / counts["hit"], 1.3, places=2)


# A client always gets the same member: for this name, the client on loopback gets the target that fails.
DYING = f"s0000002.{ORIGIN}"


def failover(bench):
    rows, medians = [], {}
    settings = [
        ("fairway", "period and timeout 100 ms, fall 2", lambda folder: tight(bench, folder, "100ms")),
        ("fairway", "period and timeout 200 ms, fall 2", lambda folder: tight(bench, folder, "200ms")),
        ("gdnsd", "interval 2 s, timeout 1 s, thresholds 1",
         lambda folder: servers.gdnsd_steered(folder, bench.port, "gdnsd-pools", 10)),
        ("pdns", "Lua ifurlup, interval and timeout 1 s", lambda folder: lua(folder, bench.port, "pdns", 10, 1)),
    ]
    for name, setting, command in settings:
        if name != "fairway" and name not in bench.options.peers:
            continue
        found = {how: kills(bench, name, command, how, "1.5" if name == "fairway" else "4.2") for how in ("refuse", "hang")}
        rows.append([name, setting, *(f"{f['min']} / {f['median']} / {f['max']} ({f['count']})" for f in found.values())])
        medians[setting] = found
    bench.print("### Failover: milliseconds from a target's death to the last answer that carries it\n")
    bench.table(["server", "setting", "refused: min / median / max (kills)", "hangs: min / median / max (kills)"], rows)
    for period, marks in (("100", (200, 500)), ("200", (300, 700))):
        found = medians[f"period and timeout {period} ms, fall 2"]
        for how, most in zip(("refuse", "hang"), marks):
            bench.mark(f"last wrong answer after {how}, period and timeout {period} ms, median", found[how]["median"], most, "ms")


def tight(bench, folder, period):
    return servers.fairway_steered(folder, bench.port, "fairway", 10, "--period", period, "--fall", 2)


def lua(folder, port, what, names, interval):
    zone = servers.write(f"{folder}.zone", servers.tool("workload", what, "--names", names, "--origin", ORIGIN, "--port", HEALTH_PORT))
    return servers.pdns(folder, port, zone, interval)


def kills(bench, name, command, how, settle):
    """Measures failovers. The targets serve before the first probe round; the measurement begins when the server answers."""
    bench.next_port()
    command = command(bench.folder(f"failover-{name}"))
    reps = bench.options.reps
    targets = bench.targets("--fail", how, "--server", f"127.0.0.1:{bench.port}", "--name", DYING, "--reps", reps, "--settle", settle,
                            stdout=subprocess.PIPE, text=True)
    bench.start(name, command, DYING)
    try:
        out, _ = targets.communicate(timeout=120 + reps * float(settle) * 5)
        return json.loads(out)["gone_ms"]
    finally:
        bench.stop("targets")
        bench.stop(name)


def checks(bench):
    """Measures CPU and memory of probing many distinct HTTP targets every 10 s, each with a new connection."""
    count = bench.options.targets
    kinds = {
        "fairway": ("period 10 s, timeout 10 s",
                    lambda folder: servers.fairway_steered(folder, bench.port, "fairway-targets", count, "--period", "10s")),
        "gdnsd": ("http_status, interval 10 s, timeout 4 s",
                  lambda folder: servers.gdnsd_steered(folder, bench.port, "gdnsd-targets", count, interval=10, timeout=4)),
        "pdns": ("Lua ifurlup, interval 10 s, timeout 4 s", lambda folder: lua(folder, bench.port, "pdns-targets", count, 10)),
    }
    rows = []
    for name, (setting, command) in kinds.items():
        if name == "fairway" or name in bench.options.peers:
            rows.append([name, setting, *checking(bench, name, command, count)])
    bench.print(f"### {count} distinct HTTP targets, one check each every 10 s, a new connection each\n")
    bench.table(["server", "setting", "checks a second", "cores", "PSS MB", "peak MB"], rows)


def checking(bench, name, command, count):
    """Returns cores and memory without queries, and the accepted connections (counted by the kernel)."""
    bench.next_port()
    bench.targets("--all-loopback")
    try:
        _, pid = bench.start(name, command(bench.folder(f"checks-{name}")), f"s0000001.{ORIGIN}", wait=150)
        if name == "pdns":
            # It starts to check a target at the first query for its name.
            bench.load(bench.port, pid, every_name(bench, count), "--rate", 2_000, "--dur", count / 2_000 + 2, "--timeout", 5)
        bench.settle(bench.options.settle)
        watch = Watch(pid)
        bench.settle(bench.options.watch)
        cores, rate = watch.rates()
        return [f"{rate:.0f}", f"{cores:.3f}", f"{pss_mb(pid):.0f}", f"{peak_mb(pid):.0f}"]
    finally:
        bench.stop(name)
        bench.stop("targets")


def every_name(bench, count):
    lines = (f"s{number:07}.{ORIGIN} A\n" for number in range(count))
    return servers.write(f"{bench.work}/every-name", "".join(lines))
