"""The phases of `bench/full` that take long: a million names, many pools and checks, changes under load, the soak."""
import json, os, shutil, signal, statistics, subprocess, time, urllib.request

from . import servers
from .declared import Api, until_answered
from .machine import BIN, LOAD_CORE, Watch, forget_peak, peak_mb, pss_mb, read, say, spread, tool, write
from .quick import DYING, lua
from .servers import ORIGIN

STEERED = f"steered.{ORIGIN}"
CHANGED, OLD_RECORD, NEW_RECORD = f"n0000001.{ORIGIN}", "n0000001 IN A 10.0.0.1\n", "n0000001 IN A 10.255.0.1\n"


def million(bench):
    """Measures start, memory, CPU per query and reload with a million names."""
    count = bench.options.million
    zone, queries = bench.zone(count), bench.queries(count, count=1_000_000)
    changed = write(f"{zone}-changed", read(zone).replace(" 1 3600 ", " 2 3600 ", 1).replace(OLD_RECORD, NEW_RECORD, 1))
    limit_port = bench.next_port()
    _, limit_pid = bench.start("limit", servers.limit(limit_port), CHANGED)
    rows = []
    for name in ["fairway", *bench.options.peers]:
        folder, port = bench.folder(f"million-{name}"), bench.next_port()
        start_ms, pid = bench.start(name, servers.static(name)(folder, port, zone), CHANGED, wait=240)
        pss = pss_mb(pid)
        shares, wrong = of_limit(bench, (limit_port, limit_pid), (port, pid), queries)
        try:
            took, gap, most, after = reload(bench, name, folder, port, pid, changed)
            reloaded = [f"{took:.1f}", f"{gap:.1f}", f"{most:.0f}", f"{after:.0f}"]
        except RuntimeError as fault:
            if name == "fairway":
                raise
            say(f"   {name}: {fault}")
            reloaded = ["-"] * 4
        bench.stop(name)
        rows.append([name, f"{start_ms:.0f}", f"{pss:.0f}", spread(shares, 3), *reloaded, wrong])
        if name == "fairway":
            label = f"{count:,} names"
            bench.mark(f"of limit, {count:,} static names", statistics.median(shares), 0.90, at_least=True, places=3)
            bench.mark(f"start to first right answer, {label}", start_ms, 1_000, "ms")
            bench.mark(f"PSS after start, {label}", pss, 117, "MB")
            bench.mark(f"reload, {label}", took, 1_200, "ms")
            bench.mark(f"longest gap in answers at reload, {label}", gap, 5, "ms", places=1)
            bench.mark(f"peak of a reload, times the memory before, {label}", most / pss, 2, places=2)
    bench.stop("limit")
    bench.print(f"### {count:,} names: a changed zone file until served, longest time without an answer meanwhile\n")
    bench.table(["server", "start ms", "PSS MB", "of limit", "reload ms", "gap ms", "peak MB", "PSS after MB", "wrong"], rows)


def of_limit(bench, limit, server, queries):
    shares, wrong = [], 0
    for _ in range(bench.options.rounds):
        base = bench.load(*limit, queries, "--dur", bench.options.seconds, echo=True)
        done = bench.load(*server, queries, "--dur", bench.options.seconds)
        shares.append(base["server_cpu_ns"] / done["server_cpu_ns"])
        wrong += done["wrong"]
    return shares, wrong


def reload(bench, name, folder, port, pid, zone):
    """Returns the milliseconds until the changed record is served, the longest gap, and peak and later memory."""
    bench.settle(1.1)  # some compare the file's times in whole seconds
    replace(zone, servers.zone_file(name, folder))
    forget_peak(pid)
    since = tool("waitfor", "--clock").strip()
    with open(f"{bench.work}/reload.log", "w") as log:
        command = subprocess.Popen(servers.reload_command(name, folder, pid), stdout=log, stderr=log)
        took, gap = wait_for(port, CHANGED, "10.255.0.1", since, 120)
        command.wait(120)
    bench.settle(3)  # memory is freed in the background, and the server looks once a second
    return took, gap, peak_mb(pid), pss_mb(pid)


def replace(new, path):
    shutil.copy(new, f"{path}.new")
    os.rename(f"{path}.new", path)


def wait_for(port, name, address, since, seconds):
    command = ["taskset", "-c", LOAD_CORE, f"{BIN}/waitfor", "--server", f"127.0.0.1:{port}", "--name", name, "--addr", address,
               "--since", since, "--timeout", str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 20)
    if done.returncode != 0:
        raise RuntimeError(f"{name} is not answered with {address} within {seconds} s")
    return map(float, done.stdout.split())


def transition(bench):
    """Measures the time from a failed probe to the last answer with the member, with a million static names."""
    count, port = bench.options.million, bench.next_port()
    command = servers.fairway_steered(bench.folder("transition"), port, "fairway", 10, "--period", "50ms", "--fall", 1, zone=bench.zone(count))
    targets = bench.targets("--fail", "error", "--server", f"127.0.0.1:{port}", "--name", DYING, "--reps", bench.options.reps,
                            "--settle", "0.5", stdout=subprocess.PIPE, text=True)
    bench.start("fairway", command, DYING, wait=240)
    out, _ = targets.communicate(timeout=60 + bench.options.reps * 5)
    bench.stop("fairway")
    gone = json.loads(out)["gone_ms"]
    bench.print(f"### One flipped member beside {count:,} names: milliseconds from the failing response to the last answer with it\n")
    bench.table(["min", "median", "max", "transitions"], [[gone["min"], gone["median"], gone["max"], gone["count"]]])
    bench.mark(f"one flipped member until served, {count:,} names, median", gone["median"], 1, "ms", places=2)


def change(bench):
    """Measures a changed address of a pool until it is answered, with a million static names."""
    count, port, folder = bench.options.million, bench.next_port(), bench.folder("change")
    shutil.copy(bench.zone(count), f"{folder}/zone")
    path = f"{folder}/config/0000.yaml"
    text = lambda host: f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "off" }}
udp: {{ workers: 1 }}
zones: [{{ name: {ORIGIN}, file: zone }}]
monitors: [{{ name: up, type: always }}]
clusters: [{{ name: c1, addresses: [10.254.0.{host}] }}]
pools: [{{ name: p1, policy: failover, monitor: up, members: [{{ cluster: c1 }}] }}]
names: [{{ name: {STEERED}, pool: p1 }}]
"""
    _, pid = bench.start("fairway", servers.serve(folder, text(0)), STEERED, wait=240)
    bench.settle(4)  # a zone file is read again until it has not changed for a while
    took = []
    forget_peak(pid)
    before = pss_mb(pid)
    for rep in range(1, bench.options.reps + 1):
        new = write(f"{folder}/new.yaml", text(rep))
        begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        asker = subprocess.Popen(["taskset", "-c", LOAD_CORE, f"{BIN}/waitfor", "--server", f"127.0.0.1:{port}", "--name", STEERED,
                                  "--addr", f"10.254.0.{rep}", "--since", str(begin), "--timeout", "20"], stdout=subprocess.PIPE, text=True)
        bench.settle(0.3)
        changed = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.replace(new, path)
        os.kill(pid, signal.SIGHUP)
        out, _ = asker.communicate(timeout=30)
        took.append(float(out.split()[0]) - (changed - begin) / 1e6)
    peak = peak_mb(pid)
    answered, acknowledged = records(bench, port, folder)
    bench.stop("fairway")
    median = statistics.median(took)
    bench.print(f"### A pool's changed address beside {count:,} names: milliseconds from the changed file and SIGHUP to the answer\n")
    bench.table(["min", "median", "max", "changes", "PSS before MB", "peak MB"],
                [[f"{min(took):.2f}", f"{median:.2f}", f"{max(took):.2f}", len(took), f"{before:.0f}", f"{peak:.0f}"]])
    bench.mark(f"one changed steered name until served, {count:,} names, median", median, 1, "ms", places=2)
    bench.print(f"### A declared record changed over the API beside {count:,} names: milliseconds from the request\n")
    bench.table(["until answered", "until acknowledged", "changes"], [[spread(answered, 2), spread(acknowledged, 2), len(answered)]])
    bench.mark(f"one changed record until served, {count:,} names, median", statistics.median(answered), 1, "ms", places=2)


def records(bench, port, folder):
    """Returns the milliseconds from the request that changes a record to the first answer with it, and to the response."""
    api, name, answered, acknowledged = Api(folder), f"declared.{ORIGIN}", [], []
    for rep in range(bench.options.reps + 1):
        address = f"10.253.0.{rep}"
        body = {"name": name, "sets": [{"type": "A", "ttl": "60s", "data": [address]}]}
        took = until_answered(bench, port, name, address, lambda: api.ask("PUT", f"/v1/records/{name}", body))
        if rep > 0:  # the first one creates the name
            answered.append(took[0])
            acknowledged.append(took[1])
    return answered, acknowledged


def pools(bench):
    """Measures the start with many pools of three members that share their targets. Programs should write JSON; people write YAML."""
    count, rows = bench.options.pools, []
    kinds = [("fairway", "JSON", lambda folder: servers.fairway_steered(folder, bench.port, "fairway", count)),
             ("fairway", "YAML", lambda folder: servers.fairway_steered(folder, bench.port, "fairway", count, "--yaml")),
             ("pdns", "Lua records", lambda folder: lua(folder, bench.port, "pdns", count, 1))]
    for name, form, command in kinds:
        if name == "fairway" or name in bench.options.peers:
            bench.next_port()
            bench.targets()
            start_ms, pid = bench.start(name, command(bench.folder(f"pools-{name}")), f"s0000001.{ORIGIN}", wait=300)
            rows.append([name, form, f"{start_ms:.0f}", f"{pss_mb(pid):.0f}"])
            if name == "fairway":
                bench.mark(f"start with {count:,} pools of 3 members, one {form} file", start_ms, 200, "ms")
            bench.stop(name)
            bench.stop("targets")
    bench.print(f"### Start with {count:,} pools of three members, shared targets, HTTP checks\n")
    bench.table(["server", "configuration", "start ms", "PSS MB"], rows)


def checks30k(bench):
    """Measures the server with probes of distinct addresses and ports every 10 s, each with a new connection."""
    names, http = bench.options.targets, bench.next_port()
    port = bench.next_port()
    for part in range(3):  # a process can have about 20,000 sockets
        bench.targets("--distinct", names, "--first", names * part, name=f"targets-{part}")
    command = servers.fairway_steered(bench.folder("checks30k"), port, "fairway-checks", names, "--period", "10s", http=http)
    start_ms, pid = bench.start("fairway", command, f"s0000001.{ORIGIN}", wait=240)
    bench.settle(bench.options.settle)
    watch = Watch(pid)
    bench.settle(bench.options.watch)
    cores, rate = watch.rates()
    up, pss, most = metric(http, 'fairway_targets{status="up"}'), pss_mb(pid), peak_mb(pid)
    if up != names * 3:
        raise RuntimeError(f"{up:.0f} of {names * 3} targets are up")
    bench.stop_all()
    bench.print(f"### {names * 3:,} HTTP checks, each on its own address and port, every 10 s, a new connection each\n")
    bench.table(["targets up", "checks a second", "cores", "PSS MB", "peak MB", "start ms"],
                [[f"{up:.0f}", f"{rate:.0f}", f"{cores:.3f}", f"{pss:.0f}", f"{most:.0f}", f"{start_ms:.0f}"]])
    bench.mark(f"{names * 3:,} HTTP checks every 10 s, cores", cores, 0.3, places=3)
    bench.mark(f"{names * 3:,} HTTP checks every 10 s, PSS", pss, 200, "MB")


def metric(port, name):
    """Returns the sum of the samples whose line begins with `name`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


# Number of targets, each probed ten times per second; each probe with another result than the one before is a transition.
CHANGING, LATENCY_RATE = 100, 20_000


def latency(bench):
    """Measures p99 in windows with and without 1,000 health transitions per second, and of the limit, all at one rate."""
    http, limit_port = bench.next_port(), bench.next_port()
    _, limit_pid = bench.start("limit", servers.limit(limit_port), f"s0000001.{ORIGIN}")
    port = bench.next_port()
    targets = bench.targets("--all-loopback", stdin=subprocess.PIPE, text=True)
    command = servers.fairway_steered(bench.folder("latency"), port, "fairway-targets", CHANGING, "--period", "100ms", "--fall", 1, http=http)
    _, pid = bench.start("fairway", command, f"s0000001.{ORIGIN}")
    queries, windows, wrong, untimed = bench.queries(CHANGING, "s"), {"limit": [], "quiet": [], "changing": []}, 0, []
    changes, changing = 0, 0.0
    for _ in range(max(bench.options.rounds, 9)):
        for state, found in windows.items():
            tell(targets, "alternate" if state == "changing" else "steady")
            before, t0 = metric(http, "fairway_health_transitions_total"), time.monotonic()
            where = (limit_port, limit_pid) if state == "limit" else (port, pid)
            done = bench.load(*where, queries, "--rate", LATENCY_RATE, "--dur", 1.5, "--warm", 0.3, echo=state == "limit")
            found.append(done["p99_us"])
            wrong += done["wrong"]
            untimed.append(100 * done["untimed"])
            if state == "changing":
                changes += metric(http, "fairway_health_transitions_total") - before
                changing += time.monotonic() - t0
    bench.stop_all()
    limit, quiet, busy = (statistics.median(v) for v in windows.values())
    rows = [[state, spread(found, 0), f"{statistics.median(found) / limit:.2f}"] for state, found in windows.items()]
    bench.print(f"### p99 at {LATENCY_RATE:,} queries a second, with {changes / changing:.0f} health transitions per second and without\n")
    bench.table(["windows", "p99 µs", "of the limit's"], rows)
    bench.print(f"Wrong answers: {wrong}. Not timed (see *untimed*): {spread(untimed, 1)} %\n")
    bench.mark(f"p99 with {changes / changing:,.0f} changes a second, times the quiet one", busy / quiet, 1.5, places=2)


def tell(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()


SOAK_NAMES, SOAK_POOLS, SOAK_DECLARED, TARGETS = 10_000, 1_000, 100, [f"127.0.1.{last}/32" for last in (1, 2, 3)]


def soak(bench):
    """Puts on load while zones are reloaded, a member fails and returns, and a declared pool moves to another cluster. Each answer is compared with
    the states that were valid in its window."""
    zones = {octet: bench.zone(SOAK_NAMES, octet) for octet in (10, 11)}
    asked = [bench.queries(SOAK_NAMES), bench.queries(SOAK_POOLS, "s"), bench.queries(SOAK_DECLARED, "i")]
    mixed = write(f"{bench.work}/mixed", "".join(map(read, asked)))
    folder, port = bench.folder("soak"), bench.next_port()
    targets = bench.targets(stdin=subprocess.PIPE, text=True)
    command = servers.fairway_steered(folder, port, "fairway", SOAK_POOLS, "--period", "200ms", "--fall", 2, zone=zones[10])
    _, pid = bench.start("fairway", command, DYING)
    api = Api(folder)
    declare(api)
    end, memory, octet, alive, sums = time.monotonic() + bench.options.soak, [], 10, True, {"right": 0, "wrong": 0, "lost": 0}
    while time.monotonic() < end:
        window = start_window(bench, port, pid, mixed, "7", [10, 11, 12, 13], TARGETS)
        octet, alive = 21 - octet, not alive
        api.ask("PUT", "/v1/pools/declared", declared_pool(octet + 2))
        replace(zones[octet], servers.zone_file("fairway", folder))
        subprocess.run(["kill", "-HUP", str(pid)], check=True)
        tell(targets, "up" if alive else "refuse")
        since = tool("waitfor", "--clock").strip()
        wait_for(port, CHANGED, f"{octet}.0.0.1", since, 60)
        finish(window, sums)
        steady = start_window(bench, port, pid, mixed, "5", [octet, octet + 2], TARGETS if alive else TARGETS[1:])
        finish(steady, sums)
        memory.append(pss_mb(pid))
        say(f"   {len(memory)} rounds, {sums}, {memory[-1]:.1f} MB")
    bench.stop("fairway")
    bench.stop("targets")
    early, late = max(memory[: len(memory) // 4 + 1]), max(memory[-(len(memory) // 4 + 1):])
    rounds = f"a reload, a dying or returning member and a declared change in each of {len(memory)} rounds"
    bench.print(f"### {bench.options.soak:.0f} s of load, {rounds}\n")
    bench.table(["right answers", "wrong", "lost", "PSS MB in the first quarter", "in the last"],
                [[f"{sums['right']:,}", sums["wrong"], sums["lost"], f"{early:.1f}", f"{late:.1f}"]])
    bench.mark(f"wrong answers in {bench.options.soak:.0f} s of load and changes", sums["wrong"], 0)
    bench.mark("memory at the end of the soak, times its beginning", late / early, 1.05, places=2)


def declare(api):
    """Declares names whose pool, declared too, moves between two clusters."""
    api.ask("POST", "/v1/apply", {
        "monitors": [{"name": "declared", "type": "always"}],
        "clusters": [{"name": f"d{octet}", "addresses": [f"{octet}.0.0.1"]} for octet in (12, 13)],
        "pools": [declared_pool(12)],
        "names": [{"name": f"i{number:07}.{ORIGIN}", "pool": "declared"} for number in range(SOAK_DECLARED)]})


def declared_pool(octet):
    return {"name": "declared", "policy": "failover", "monitor": "declared", "members": [{"cluster": f"d{octet}"}]}


def start_window(bench, port, pid, queries, seconds, octets, targets):
    """Starts load whose answers must be from these generations of the zone or from these targets."""
    allow = [f"{octet}.0.0.0/8" for octet in octets] + targets
    command = bench.load_command(port, pid, queries, "--dur", seconds, *(word for net in allow for word in ("--allow", net)))
    return bench.run("load", command, stdout=subprocess.PIPE, text=True)


def finish(window, sums):
    out, _ = window.communicate(timeout=120)
    done = json.loads(out)
    for key in sums:
        sums[key] += done[key]
