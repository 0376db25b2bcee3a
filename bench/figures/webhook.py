"""The phases `webhook` and `memory`: time of reads and changes, and memory, of endpoints that several clients contribute."""
import http.client, json, statistics, time

from . import servers
from .declared import until_answered
from .machine import pss_mb, say, spread, tool, write
from .servers import ORIGIN

TYPE = "application/external.dns.webhook+json;version=1"
# The first client changes: its members come before those of the others.
OWNERS = ["a", "b", "c", "d", "e"]


class Hook:
    """Calls the webhook as external-dns does, each call on a connection of its own."""

    def __init__(self, port):
        self.port = port

    def ask(self, method, path, body=None):
        """Returns the body of the response, and the milliseconds until it arrived."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        octets = None if body is None else json.dumps(body)
        since = time.monotonic()
        connection.request(method, path, octets, {"Content-Type": TYPE, "Accept": TYPE})
        answer = connection.getresponse()
        text, took = answer.read(), (time.monotonic() - since) * 1e3
        connection.close()
        if answer.status not in (200, 204):
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
        return text, took


def webhook(bench):
    """Measures 50,000 endpoints of five base paths, registry records included, with names that all five share: GET; creating, updating and
    deleting 10,000 of one path, which changes every name; and updating one."""
    count, folder = bench.options.endpoints // len(OWNERS) // 2, bench.folder("webhook")
    # The last port is that for DNS.
    hook, port = bench.next_port(), bench.next_port()
    write(f"{folder}/zone", tool("workload", "zone", "--names", 1, "--origin", ORIGIN))
    command = servers.serve(folder, f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "off" }}
udp: {{ workers: 1 }}
zones: [{{ name: {ORIGIN}, file: zone }}]
withdrawals: {{ holdFor: 0s, holdLastFor: 0s }}
webhook: {{ listen: "127.0.0.1:{hook}" }}
clusters: [{{ name: here, addresses: [127.0.0.1] }}]
monitors: [{{ name: up, type: always }}]
pools: [{{ name: ready, policy: failover, monitor: up, members: [{{ cluster: here }}] }}]
names: [{{ name: ready.{ORIGIN}, pool: ready }}]
""")
    _, pid = bench.start("fairway", command, f"ready.{ORIGIN}")
    client, rows = Hook(hook), 2 * count
    for number, owner in enumerate(OWNERS[1:], 1):
        client.ask("POST", path(owner), {"create": endpoints(owner, number, count, 0)})
    say(f"   {4 * rows:,} endpoints of four clients are there")
    timed = {"create": [], "update": [], "delete": [], "one": []}

    def change(kind, name, address, body):
        timed[kind].append(until_answered(bench, port, name, address, lambda: client.ask("POST", path("a"), body)))

    for rep in range(bench.options.reps):
        own = [endpoints("a", 0, count, 2 * rep + step) for step in range(2)]
        last = f"n{count - 1}.{ORIGIN}"
        change("create", last, address(0, 2 * rep), {"create": own[0]})
        change("update", last, address(0, 2 * rep + 1), {"updateOld": own[0], "updateNew": own[1]})
        one = endpoints("a", 0, 1, 250)[:1]
        change("one", f"n0.{ORIGIN}", address(0, 250), {"updateOld": own[1][:1], "updateNew": one})
        change("delete", last, address(1, 0), {"delete": one + own[1][1:]})
    client.ask("POST", path("a"), {"create": endpoints("a", 0, count, 0)})
    got = [client.ask("GET", path("a"))[1] for _ in range(9)]
    pss = pss_mb(pid)
    every = [endpoint for number, owner in enumerate(OWNERS) for endpoint in endpoints(owner, number, count, 0, f"{owner}.")]
    for first in range(0, len(every), rows):
        client.ask("POST", path("all"), {"create": every[first:first + rows]})
    got_all = [client.ask("GET", path("all"))[1] for _ in range(9)]
    bench.stop("fairway")

    bench.print(f"### {5 * rows:,} endpoints of five clients over the webhook, on names that all share: milliseconds from the request\n")
    labels = {"create": f"{rows:,} created", "update": f"{rows:,} updated", "delete": f"{rows:,} deleted", "one": "one updated"}
    bench.table(["change", "until answered", "until acknowledged", "changes"],
                [[label, spread([took[0] for took in timed[kind]], 0), spread([took[1] for took in timed[kind]], 0), len(timed[kind])]
                 for kind, label in labels.items()])
    bench.table([f"GET of {rows:,} ms", f"GET of {5 * rows:,} at one base path ms", f"PSS with {5 * rows:,} MB"],
                [[spread(got, 0), spread(got_all, 0), f"{pss:.0f}"]])
    for kind, label in labels.items():
        bench.mark(f"{label} over the webhook until served, median", statistics.median(took[0] for took in timed[kind]), 1_000, "ms")
    bench.mark(f"GET /records of {5 * rows:,}, median", statistics.median(got_all), 300, "ms")


def path(owner):
    return f"/owners/{owner}/records"


def address(number, step):
    return f"10.{number}.0.{step % 250 + 1}"


def endpoints(owner, number, count, step, below=""):
    """Returns an endpoint per name and its registry record. The members of a client are in the tier of its number."""
    words = [("webhook/gslb-health-scheme", "none"), ("webhook/gslb-policy", "failover"), ("webhook/gslb-tier", str(number + 1))]
    rest = {"setIdentifier": owner, "recordTTL": 60, "labels": {"owner": owner}, "providerSpecific": [{"name": name, "value": value} for name, value in words]}
    made = []
    for at in range(count):
        name = f"n{at}.{below}{ORIGIN}"
        heritage = f'"heritage=external-dns,external-dns/owner={owner},external-dns/resource=service/default/n{at}"'
        made.append({"dnsName": name, "recordType": "A", "targets": [address(number, step)], **rest})
        made.append({"dnsName": f"a-{name}", "recordType": "TXT", "targets": [heritage], **rest})
    return made


LABELS = {"owner": "default", "resource": "ingress/default/service"}
PROPERTIES = [{"name": "webhook/gslb-weight", "value": "10"}, {"name": "webhook/gslb-tier", "value": "1"}]


def a_record(at):
    return {"recordType": "A", "targets": [f"10.{at >> 16}.{at >> 8 & 255}.{at & 255}"]}


# Kinds of endpoints: the part of `--endpoints` that is written (one in so many), and the fields of an endpoint by its number.
KINDS = {
    "A, an address each": (1, a_record),
    "A, 100 addresses": (1, lambda at: a_record(at % 100)),
    "A with labels and properties": (1, lambda at: {**a_record(at), "recordTTL": 60, "labels": LABELS, "providerSpecific": PROPERTIES}),
    "TXT of 1,000 bytes": (1, lambda at: {"recordType": "TXT", "targets": ["x" * 1_000]}),
    "TXT of 8,000 bytes": (5, lambda at: {"recordType": "TXT", "targets": ["x" * 8_000]}),
}
# Endpoints of a call, and memory for pages of the store, which it uses only once more than that is written.
BATCH, PAGES_MB = 1_000, 16


def memory(bench):
    """Measures the memory of endpoints of twenty base paths: 20 s after they were written in batches, and after a restart."""
    rows = []
    for kind, (part, fields) in KINDS.items():
        count, folder = bench.options.endpoints // part, bench.folder("memory")
        hook, port = bench.next_port(), bench.next_port()
        write(f"{folder}/zone", tool("workload", "zone", "--names", 1, "--origin", ORIGIN))
        command = servers.serve(folder, f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "off" }}
udp: {{ workers: 1 }}
limits: {{ memory: 8GiB }}
monitors: [{{ name: up, type: always }}]
zones: [{{ name: {ORIGIN}, file: zone, monitor: up }}]
webhook: {{ listen: "127.0.0.1:{hook}" }}
""")
        _, pid = bench.start("fairway", command, f"n0000000.{ORIGIN}")
        before, client, octets = pss_mb(pid), Hook(hook), 0
        for first in range(0, count, BATCH):
            made = [{"dnsName": f"e{at:07}.gslb.{ORIGIN}", **fields(at)} for at in range(first, min(first + BATCH, count))]
            octets += len(json.dumps(made, separators=(",", ":")))
            client.ask("POST", path(f"o{first // BATCH % 20}"), {"create": made})
        bench.settle(20)
        written = pss_mb(pid) - before - PAGES_MB
        bench.stop("fairway")
        _, pid = bench.start("fairway", command, f"n0000000.{ORIGIN}", wait=240)
        bench.settle(5)
        restarted = pss_mb(pid) - before - PAGES_MB
        bench.stop("fairway")
        per_byte = [grown * 1e6 / octets for grown in (written, restarted)]
        rows.append([kind, f"{count:,}", f"{octets / 1e6:.0f}", *(f"{grown:.0f}" for grown in (written, restarted)), *(f"{each:.1f}" for each in per_byte)])
        if part > 1:
            bench.mark(f"memory per byte, {kind}, as written", per_byte[0], 2.5, places=2)
            bench.mark(f"memory per byte, {kind}, after a restart", per_byte[1], 2.5, places=2)
    bench.print(f"### Memory of endpoints of twenty base paths, in addition to that of the process and {PAGES_MB} MB for pages of the store\n")
    bench.table(["endpoints", "number", "JSON MB", "as written MB", "after a restart MB", "as written, bytes per byte", "after a restart, bytes per byte"], rows)
