"""The phases `intents` and `shared`: a changed intent among 100,000 until it is acknowledged and answered, by the server that received it and by
another one on the same etcd, and a start with all of them."""
import http.client, itertools, json, statistics, threading, time, urllib.request

from . import servers
from .declared import CLUSTERS, Api, until_answered
from .machine import LOAD_CORE, install, pss_mb, read, say, spread, tool, write
from .servers import HEALTH_PORT, ORIGIN

# Path of the inbound intents of one app, as in ONAP's wiki.
INBOUND = "/v2/projects/p/composite-apps/a/v1/traffic-intent-set/inbound-intents"
# As many connections as one client may have open.
WRITERS = 32
# Servers that share a store need a program with that feature.


def intents(bench):
    """Measures a changed intent among many, then a start with all of them."""
    count, port, http_port = bench.options.intents, bench.next_port(), bench.next_port()
    bench.targets("--all-loopback")
    command, folder = server(bench, "intents", port, http_port)
    bench.start("fairway", command, f"n0000000.{ORIGIN}", port=port)
    store(http_port, count)
    changed = changes(bench, Api(folder), [port], count)
    bench.stop("fairway")
    started, loaded = [], []
    for _ in range(3):
        start_ms, pid = bench.start("fairway", [*command[:-1], "info"], name(count - 1), wait=240, port=port)
        started.append(start_ms)
        loaded.append(loading(f"{bench.work}/fairway.log", count))
        pss = pss_mb(pid)
        bench.stop("fairway")
    label = f"{count:,} inbound intents"
    bench.print(f"### One changed intent among {label}: milliseconds from the request\n")
    bench.table(["until answered", "until acknowledged", "changes", "read from the store ms", "start with all of them ms", "PSS MB"],
                [[spread(changed["answered"], 1), spread(changed["acknowledged"], 1), len(changed["answered"]), spread(loaded, 0),
                  spread(started, 0), f"{pss:.0f}"]])
    bench.mark(f"one changed intent until served, {label}, median", statistics.median(changed["answered"]), 50, "ms", places=1)
    bench.mark(f"{label} read from the store, median", statistics.median(loaded), 1_000, "ms")
    bench.mark(f"start with {label}, median", statistics.median(started), 1_000, "ms")


def loading(log, count):
    """Returns the milliseconds that a start took to read the store, from its log."""
    lines = (json.loads(line) for line in read(log).splitlines() if '"duration_ms"' in line)
    found = [line for line in lines if line["msg"] == "declared objects loaded"]
    if [line["objects"] for line in found] != [count]:
        raise RuntimeError(f"{count} objects were to be read: {found}")
    return found[0]["duration_ms"]


def shared(bench):
    """Measures the same with two servers on one etcd: changed on one, answered by both."""
    install(["etcd"])
    count, client, peer = bench.options.intents, *(f"http://127.0.0.1:{bench.next_port()}" for _ in range(2))
    bench.targets("--all-loopback")
    bench.run("etcd", ["taskset", "-c", LOAD_CORE, "etcd", "--name", "bench", "--log-level", "warn", "--data-dir", bench.folder("etcd"),
                       "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                       "--initial-advertise-peer-urls", peer, "--initial-cluster", f"bench={peer}"])
    until_healthy(client)
    ports, api = [], None
    for which in ["first", "second"]:
        port, http_port = bench.next_port(), bench.next_port()
        command, folder = server(bench, which, port, http_port, f'store: {{ etcd: {{ endpoints: ["{client}"] }} }}\n')
        bench.start(which, command, f"n0000000.{ORIGIN}", port=port)
        if api is None:
            api = Api(folder)
            store(http_port, count)
        ports.append(port)
    until_same(bench, ports, count)
    same = changes(bench, api, ports[:1], count)
    other = changes(bench, api, ports[1:], count)
    bench.stop_all()
    label = f"{count:,} inbound intents on one etcd"
    bench.print(f"### One changed intent among {label} with two servers: milliseconds from the request\n")
    bench.table(["answered by", "until answered", "until acknowledged", "changes"],
                [[who, spread(of["answered"], 1), spread(of["acknowledged"], 1), len(of["answered"])]
                 for who, of in [("the server that took it", same), ("the other one", other)]])
    bench.mark(f"one changed intent until served by another server, {label}, median", statistics.median(other["answered"]), 500, "ms", places=1)
    bench.mark(f"one changed intent until served, {label}, median", statistics.median(same["answered"]), 50, "ms", places=1)


def until_healthy(etcd):
    """Waits until etcd takes requests."""
    for _ in range(200):
        try:
            with urllib.request.urlopen(f"{etcd}/health", timeout=2) as answer:
                if json.load(answer)["health"] == "true":
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"{etcd} is not healthy")


def server(bench, folder, port, http_port, more=""):
    """Returns the command of a server with the clusters that the intents use, and its folder."""
    folder = bench.folder(folder)
    clusters = "\n".join(f"  - {{ name: c{at}, addresses: [127.0.1.{at + 1}] }}" for at in range(CLUSTERS))
    write(f"{folder}/zone", tool("workload", "zone", "--names", 1, "--origin", ORIGIN))
    return servers.serve(folder, f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "127.0.0.1:{http_port}" }}
udp: {{ workers: 1 }}
{more}zones: [{{ name: {ORIGIN}, file: zone }}]
clusters:
{clusters}
"""), folder


def name(number):
    return f"intent{number}.{ORIGIN}"


def intent(number, cluster):
    members = [{"cluster": f"c{(cluster + step) % CLUSTERS}"} for step in range(3)]
    return {"metadata": {"name": f"i{number}"},
            "spec": {"app": "shop", "serviceName": "shop", "externalName": name(number), "externalSupport": True, "protocol": "TCP",
                     "port": HEALTH_PORT, "gslb": {"policy": "failover", "members": members}}}


def store(http_port, count):
    """Declares all intents, each with a request of its own."""
    numbers, lock, faults, begun = iter(range(count)), threading.Lock(), [], time.monotonic()

    def write_some():
        connection = http.client.HTTPConnection("127.0.0.1", http_port, timeout=60)
        try:
            for sent in itertools.count():
                # The server ends a connection after two minutes.
                if sent % 500 == 0:
                    connection.close()
                with lock:
                    number = next(numbers, None)
                if number is None or faults:
                    return
                connection.request("PUT", f"{INBOUND}/i{number}", json.dumps(intent(number, number % CLUSTERS)), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
                if answer.status != 201:
                    raise RuntimeError(f"intent {number}: {answer.status} {text[:300]}")
        except Exception as fault:
            faults.append(fault)

    writers = [threading.Thread(target=write_some) for _ in range(WRITERS)]
    [writer.start() for writer in writers]
    [writer.join() for writer in writers]
    if faults:
        raise faults[0]
    say(f"   {count:,} intents declared in {time.monotonic() - begun:.1f} s")


def changes(bench, api, ports, count):
    """Returns the milliseconds until acknowledged, and until answered on these ports, of successive changes."""
    found = {"answered": [], "acknowledged": []}
    for rep in range(max(bench.options.reps, 20)):
        number = (rep * 7919 + ports[0]) % count
        # The first member of each differs from that before, whichever changes were made.
        cluster = (number + 1 + rep % (CLUSTERS - 1)) % CLUSTERS
        ask = lambda: api.ask("PUT", f"{INBOUND}/i{number}", intent(number, cluster))
        answered, acknowledged = until_answered(bench, ports[0], name(number), f"127.0.1.{cluster + 1}", ask)
        found["answered"].append(answered)
        found["acknowledged"].append(acknowledged)
    return found


def until_same(bench, ports, count):
    """Waits until every server answers the intent that was stored last."""
    for port in ports:
        since = tool("waitfor", "--clock").strip()
        tool("waitfor", "--server", f"127.0.0.1:{port}", "--name", name(count - 1), "--since", since, "--timeout", 240, timeout=260)
