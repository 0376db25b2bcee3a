"""The phase `declared`: a changed object among many that were declared over the API, until it is answered, and a start with all of them."""
import http.client, json, socket, statistics, subprocess, time

from . import servers
from .machine import BIN, LOAD_CORE, pss_mb, say, spread, tool, write
from .servers import ORIGIN

# Most changes of one batch, and the clusters that pools share.
BATCH, CLUSTERS = 10_000, 20


class Api:
    """Calls the API on the control socket."""

    def __init__(self, folder):
        self.path = f"{folder}/data/control.sock"

    def ask(self, method, path, body, seconds=600):
        """Returns the body of the response, and the milliseconds until it arrived."""
        connection = http.client.HTTPConnection("localhost", timeout=seconds)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(seconds)
        connection.sock.connect(self.path)
        since = time.monotonic()
        connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text, took = answer.read(), (time.monotonic() - since) * 1e3
        connection.close()
        if answer.status not in (200, 201):
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text), took


def declared(bench):
    """Measures a changed pool among many until it is answered, then a start with all of them."""
    count, folder, port = bench.options.declared, bench.folder("declared"), bench.next_port()
    clusters = "\n".join(f"  - {{ name: c{at}, addresses: [10.0.0.{at + 1}] }}" for at in range(CLUSTERS))
    write(f"{folder}/zone", tool("workload", "zone", "--names", 1, "--origin", ORIGIN))
    command = servers.serve(folder, f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "off" }}
udp: {{ workers: 1 }}
zones: [{{ name: {ORIGIN}, file: zone }}]
monitors: [{{ name: up, type: always }}]
clusters:
{clusters}
""")
    bench.start("fairway", command, f"n0000000.{ORIGIN}")
    api, begun = Api(folder), time.monotonic()
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        api.ask("POST", "/v1/apply", {"pools": [pool(n, n % CLUSTERS) for n in numbers]})
        api.ask("POST", "/v1/apply", {"names": [{"name": name(n), "pool": f"d{n}"} for n in numbers]})
    say(f"   {count:,} pools and as many names declared in {time.monotonic() - begun:.1f} s")
    answered, acknowledged = [], []
    for rep in range(bench.options.reps):
        number, cluster = rep * 7919 % count, (rep * 7919 + 1) % CLUSTERS
        took = change(bench, port, api, number, cluster)
        answered.append(took[0])
        acknowledged.append(took[1])
    bench.stop("fairway")
    started = []
    for _ in range(3):
        start_ms, pid = bench.start("fairway", command, name(count - 1), wait=240)
        started.append(start_ms)
        pss = pss_mb(pid)
        bench.stop("fairway")
    label = f"{count:,} names with a pool each"
    bench.print(f"### One changed pool among {label}, declared over the API: milliseconds from the request\n")
    bench.table(["until answered", "until acknowledged", "changes", "start with all of them ms", "PSS MB"],
                [[spread(answered, 1), spread(acknowledged, 1), len(answered), spread(started, 0), f"{pss:.0f}"]])
    bench.mark(f"one changed pool until served, {label}, declared, median", statistics.median(answered), 50, "ms", places=1)
    bench.mark(f"start with {label}, declared, median", statistics.median(started), 1_000, "ms")


def name(number):
    return f"declared{number}.{ORIGIN}"


def pool(number, cluster):
    return {"name": f"d{number}", "policy": "failover", "monitor": "up", "members": [{"cluster": f"c{(cluster + step) % CLUSTERS}"} for step in range(3)]}


def change(bench, port, api, number, cluster):
    """Returns the milliseconds from the request to the first answer with the changed pool, and to the response."""
    ask = lambda: api.ask("PUT", f"/v1/pools/d{number}", pool(number, cluster))
    return until_answered(bench, port, name(number), f"10.0.0.{cluster + 1}", ask)


def until_answered(bench, port, name, address, ask):
    """Returns the milliseconds from a request over the API to the first answer with this address, and to the response."""
    begun = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    asker = subprocess.Popen(["taskset", "-c", LOAD_CORE, f"{BIN}/waitfor", "--server", f"127.0.0.1:{port}", "--name", name, "--addr", address,
                              "--since", str(begun), "--timeout", "60"], stdout=subprocess.PIPE, text=True)
    bench.settle(0.3)
    asked = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    _, acknowledged = ask()
    out, _ = asker.communicate(timeout=70)
    return float(out.split()[0]) - (asked - begun) / 1e6, acknowledged
