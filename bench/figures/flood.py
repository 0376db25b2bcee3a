"""The phase `flood`: queries with forged sources, and what clients with a cookie and over TCP notice of it.

Server, attacker and clients each get a network namespace of their own, so that the sources can be any address and no packet leaves the
machine. All ask the same address, that is the same socket. The attacker has a link of its own, whose counters show what the unknown sources get.
"""
import json, os, subprocess, time

from . import servers
from .machine import BIN, LOAD_CORE, SERVER_CORE, read, say, write
from .servers import ORIGIN

ADDRESS, PORT = "198.18.0.53", 53
# Seconds of a run, and of a try of the bisection.
DURATION, TRY = 10, 3
TRIES = 6
SEED = 20_261
# Octets of the headers of Ethernet, IPv4 and UDP.
HEADERS = 42
# Sources in these /24 networks: victims of a reflection, and any network.
SPREADS = {"256 networks": 256, "any network": 0}
QUERIES = {"A": ("n0000001", 1), "TXT of 1,000 octets": ("big", 16)}


class Links:
    """The namespaces and their links."""

    def __init__(self):
        self.server, self.attacker, self.clients = (f"fairway-{name}-{os.getpid()}" for name in ("server", "attacker", "clients"))

    def __enter__(self):
        for name in (self.server, self.attacker, self.clients):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.server, "address", "add", f"{ADDRESS}/32", "dev", "lo")
        for number, (name, link) in enumerate([(self.attacker, "unknown"), (self.clients, "known")], 1):
            ip("-n", self.server, "link", "add", link, "type", "veth", "peer", "name", "wan", "netns", name)
            for owner, device, last in ((self.server, link, 1), (name, "wan", 2)):
                ip("-n", owner, "address", "add", f"198.18.{number}.{last}/24", "dev", device)
                ip("-n", owner, "link", "set", device, "up")
            ip("-n", name, "route", "add", ADDRESS, "via", f"198.18.{number}.1")
        ip("-n", self.server, "route", "add", "default", "via", "198.18.1.2")
        for device in ("all", "default", "unknown"):
            within(self.server, "sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=0")
        return self

    def __exit__(self, *_):
        for name in (self.server, self.attacker, self.clients):
            subprocess.run(["ip", "netns", "delete", name], check=False)

    def counters(self):
        """Returns the kernel's counters of UDP in the server's namespace, and those of the link to the unknown sources."""
        lines = [l.split() for l in within(self.server, "cat", "/proc/net/snmp").splitlines() if l.startswith("Udp:")]
        udp = dict(zip(lines[0][1:], map(int, lines[1][1:])))
        link = json.loads(within(self.server, "ip", "-s", "-j", "link", "show", "dev", "unknown"))[0]["stats64"]
        return {"read": udp["InDatagrams"], "dropped": udp["RcvbufErrors"], **{f"{way}_{unit}": link[way][unit] for way in ("rx", "tx") for unit in ("bytes", "packets")}}


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, timeout=20)


def within(namespace, *command):
    return subprocess.run(["ip", "netns", "exec", namespace, *command], check=True, capture_output=True, text=True, timeout=20).stdout


def flood(bench):
    rows = []
    with Links() as links:
        for query, (name, rtype) in QUERIES.items():
            for spread, networks in SPREADS.items():
                rows += attacked(bench, links, query, f"{name}.{ORIGIN}", rtype, spread, networks)
    bench.print(f"### Queries with forged sources (seed {SEED}), `cookies` and `rateLimit` on; clients with a cookie and over TCP in the same run\n")
    bench.table(["query, sources, rate", "sent/s", "read/s", "kernel drops %", "cookie %", "p50, p99 µs", "TCP %", "p50, p99 µs",
                 "bytes to unknown sources, times theirs", "of DNS alone"], rows)


def start(bench, links):
    zone = f"{bench.work}/flood-zone"
    text = " ".join(['"' + "x" * 240 + '"'] * 4)
    with open(bench.zone(1_000)) as file:
        write(zone, file.read() + f"big 60 IN TXT {text}\n")
    folder = bench.folder("flood")
    command = servers.fairway(folder, PORT, zone, "rateLimit: {}\n")
    path = f"{folder}/config/0000.yaml"
    with open(path) as file:
        config = file.read().replace("127.0.0.1", ADDRESS)
    write(path, config)
    bench.run("fairway", ["ip", "netns", "exec", links.server, "taskset", "-c", SERVER_CORE, *command])
    wait_ready(bench, links)


def wait_ready(bench, links):
    """Waits until a client is answered. `waitfor` asks from loopback, which has no route to another namespace."""
    until = time.monotonic() + 20
    ask = ["ip", "netns", "exec", links.clients, f"{BIN}/honest", "--server", f"{ADDRESS}:{PORT}", "--name", f"n0000001.{ORIGIN}", "--dur", "0.1"]
    while subprocess.run(ask, capture_output=True, timeout=60).returncode != 0:
        if time.monotonic() > until:
            raise RuntimeError(f"no answer within 20 s; the log of the server ends:\n{read(f'{bench.work}/fairway.log')[-600:]}")
        time.sleep(0.2)


def command(links, namespace, program, name, rtype, seconds, *more):
    return ["ip", "netns", "exec", namespace, "taskset", "-c", LOAD_CORE, f"{BIN}/{program}", "--server", f"{ADDRESS}:{PORT}", "--name", name,
            "--rtype", str(rtype), "--dur", str(seconds), *map(str, more)]


def attacked(bench, links, query, name, rtype, spread, networks):
    """Measures one query at 0.9 of the readable rate and at the highest one. Returns the rows."""
    start(bench, links)
    attack = lambda seconds, rate: command(links, links.attacker, "flood", name, rtype, seconds, "--rate", rate, "--networks", networks, "--seed", SEED)
    highest = tried(links, attack(TRY, 0))[0]
    readable = bisect(links, attack, highest)
    say(f"   {query}, {spread}: every packet is read up to {readable:,.0f}/s; the generator's highest rate is {highest:,.0f}/s")
    rows = []
    for label, rate in ((f"0.9 × {readable:,.0f}", 0.9 * readable), ("highest", 0)):
        found = run(links, attack(DURATION + 3, rate), command(links, links.clients, "honest", name, rtype, DURATION))
        rows.append([f"{query}, {spread}, {label}", *row(found)])
        goals(bench, f"{query}, {spread}, {'highest' if rate == 0 else '0.9 of the readable rate'}", found, rate)
    bench.stop("fairway")
    return rows


def tried(links, command):
    """Returns the rate that was sent, and the packets that the kernel dropped."""
    before = links.counters()
    sent = json.loads(subprocess.check_output(command, text=True, timeout=60))["rate"]
    time.sleep(0.3)
    return sent, links.counters()["dropped"] - before["dropped"]


def bisect(links, attack, highest):
    """Returns the highest rate at which no packet is dropped."""
    low, high = 0, highest
    for _ in range(TRIES):
        middle = high if low == 0 and high == highest else (low + high) / 2
        sent, dropped = tried(links, attack(TRY, middle))
        if dropped:
            high = middle * 0.999
        else:
            low = min(middle, sent)
        if low >= 0.97 * high:
            break
    return low


def run(links, attack, clients):
    """Runs the clients during the attack."""
    attacker = subprocess.Popen(attack, stdout=subprocess.PIPE, text=True)
    time.sleep(1)
    before, begun = links.counters(), time.monotonic()
    found = json.loads(subprocess.check_output(clients, text=True, timeout=120))
    after, seconds = links.counters(), time.monotonic() - begun
    attacker.communicate(timeout=60)
    changed = {key: after[key] - before[key] for key in after}
    return {**found, **changed, "seconds": seconds}


def share(kind):
    return 100 * kind["answered"] / kind["asked"]


def drop_share(found):
    return 100 * found["dropped"] / max(found["read"] + found["dropped"], 1)


def on_the_wire(found):
    return found["tx_bytes"] / found["rx_bytes"]


def row(found):
    payload = [found[f"{way}_bytes"] - HEADERS * found[f"{way}_packets"] for way in ("tx", "rx")]
    times = lambda kind: f"{kind['p50_us']:,.0f}, {kind['p99_us']:,.0f}"
    return [f"{found['rx_packets'] / found['seconds']:,.0f}", f"{found['read'] / found['seconds']:,.0f}", f"{drop_share(found):.2f}",
            f"{share(found['cookie']):.2f}", times(found["cookie"]), f"{share(found['tcp']):.2f}", times(found["tcp"]),
            f"{on_the_wire(found):.2f}", f"{payload[0] / payload[1]:.2f}"]


def goals(bench, figure, found, rate):
    bench.mark(f"TCP answered, {figure}", share(found["tcp"]), 99, "%", at_least=True, places=2)
    if rate:
        bench.mark(f"cookie holders answered, {figure}", share(found["cookie"]), 99, "%", at_least=True, places=2)
    else:
        bench.mark(f"loss of cookie holders, {figure}", 100 - share(found["cookie"]), round(drop_share(found), 2), "% (the kernel's drops)", places=2)
    bench.mark(f"bytes to unknown sources, times theirs, {figure}", on_the_wire(found), 1.2, places=2)
