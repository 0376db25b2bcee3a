"""The command line of `bench/run` and `bench/full`: runs phases in turn, each with a time limit, keeps their rows, and writes the page of results."""
import argparse, json, os, signal, sys, tempfile, time

from . import declared, flood, fuzz, intents, long, quick, tripwire, webhook, writes
from .bench import Bench
from .machine import LOAD_CORE, PEER_BINARY, ROOT, SERVER_CORE, allow_many_sockets, build, install, machine, read, say, versions, write

# Phases, and the seconds each may take at its full length.
QUICK = {"kinds": (quick.kinds, 300), "instr": (quick.instr, 600), "static": (quick.static, 900), "steered": (quick.steered, 900),
         "ecs": (quick.ecs, 600), "limited": (quick.limited, 600), "failover": (quick.failover, 2400), "checks": (quick.checks, 900),
         "flood": (flood.flood, 900)}
LONG = {"million": (long.million, 1800), "transition": (long.transition, 600), "change": (long.change, 600), "pools": (long.pools, 600), "declared": (declared.declared, 900), "intents": (intents.intents, 1500), "shared": (intents.shared, 2400), "webhook": (webhook.webhook, 900), "memory": (webhook.memory, 1800),
        "writes": (writes.writes, 300), "checks30k": (long.checks30k, 600),
        "latency": (long.latency, 600), "soak": (long.soak, 1200), "fuzz": (fuzz.fuzz, 3600)}
PHASES = QUICK | LONG
# Phases that fail if a goal is missed: then the attack succeeds. (`fuzz` fails by itself, with the exit status.)
ATTACKS = {"flood"}
# Rows of each phase as it was last measured.
KEPT = os.path.join(ROOT, "target", "bench")


def parse(doc, full):
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="static and steered beside the limit and gdnsd only")
    add("--phases", default=" ".join(PHASES if full else QUICK), help="of " + " ".join(PHASES))
    debian = "gdnsd knot nsd bind pdns"
    add("--peers", default=debian + " hickory coredns" if full else debian, help="servers beside Fairway, of " + " ".join(PEER_BINARY) + "; may be empty")
    add("--rounds", type=int, default=9, help="of CPU per query and of latency")
    add("--seconds", type=float, default=0.7, help="of each measurement")
    add("--names", type=int, default=10_000)
    add("--million", type=int, default=1_000_000, help="names of the phases million and transition")
    add("--pools", type=int, default=100_000, help="of the phase pools")
    add("--declared", type=int, default=100_000, help="pools and names of the phase declared")
    add("--intents", type=int, default=100_000, help="of the phases intents and shared")
    add("--endpoints", type=int, default=50_000, help="of the phases webhook and memory")
    add("--targets", type=int, default=10_000, help="of the phase checks; three times as many in checks30k")
    add("--reps", type=int, default=20, help="failures, health transitions")
    add("--settle", type=float, default=15, help="seconds before health checks are watched")
    add("--watch", type=float, default=30, help="seconds they are watched")
    add("--soak", type=float, default=600, help="seconds")
    add("--fuzz", type=int, default=100_000_000, help="packets of the phase fuzz; a tenth as many HTTP requests, a hundredth as many batches of the webhook")
    add("--no-build", action="store_true", help="measures what target/dist and target/fuzz hold")
    add("--resume", action="store_true", help="leaves out phases whose rows are kept from a run before")
    add("--out", default=os.path.join(ROOT, "bench", "results.md") if full else None, help="writes the rows kept of all phases to this file")
    add("--tripwire", action="store_true", help="compares instructions per query with bench/tripwire.tsv; exit 1 if they grew")
    add("--bless", action="store_true", help="with --tripwire: writes bench/tripwire.tsv anew")
    options = parser.parse_args()
    if options.quick:
        options.phases, options.peers = "static steered", "gdnsd"
        options.rounds = min(options.rounds, 7)
    options.phases, options.peers = options.phases.split(), options.peers.split()
    unknown = [p for p in options.phases if p not in PHASES] + [p for p in options.peers if p not in PEER_BINARY]
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}")
    return options


def main(doc, full):
    options = parse(doc, full)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allow_many_sockets()
    if options.tripwire:
        return run_tripwire(options)
    install([*(PEER_BINARY[p] for p in options.peers), "valgrind", "taskset", "wrk"])
    if not options.no_build:
        build_for(options.phases)
    say(machine())
    failed = [phase for phase in options.phases if not run_phase(phase, options)]
    if options.out:
        write(options.out, page())
    if failed:
        raise SystemExit(f"failed: {' '.join(failed)}")


def build_for(phases):
    """Builds the programs of these phases before their time limits begin."""
    if set(phases) - {"fuzz"}:
        build()
    if "fuzz" in phases:
        build(fuzz.BUILD, profile=fuzz.PROFILE)


def run_tripwire(options):
    install(["valgrind"])
    if not options.no_build:
        build(["-p", "fairway-bench", "--bin", "respond"])
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as work:
        counts = tripwire.measure(work)
    if options.bless:
        return tripwire.bless(counts)
    grown = tripwire.compare(counts)
    if grown:
        raise SystemExit(f"instructions per query grew: {' '.join(grown)}; if that is meant, bench/run --tripwire --bless")


def run_phase(name, options):
    """Runs a phase within its time limit and keeps its rows. Returns true if it succeeded, an attack only if all goals are reached."""
    kept = os.path.join(KEPT, f"{name}.json")
    if options.resume and os.path.exists(kept):
        return True
    phase, bound = PHASES[name]
    say("==", name)
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as work:
        os.chmod(work, 0o755)
        bench, begin, load = Bench(options, work), time.monotonic(), os.getloadavg()[0]
        signal.signal(signal.SIGALRM, lambda *_: late(name, bound))
        signal.alarm(bound)
        try:
            phase(bench)
        except Exception as fault:
            say(f"{name}: {fault}")
            return False
        finally:
            signal.alarm(0)
            bench.stop_all()
    if bench.marks:
        bench.print_marks()
    os.makedirs(KEPT, exist_ok=True)
    write(kept, json.dumps({"lines": bench.lines, "marks": bench.marks, "about": about(options, load, time.monotonic() - begin)}))
    return name not in ATTACKS or all(there == "yes" for *_, there in bench.marks)


def late(name, bound):
    raise TimeoutError(f"not done within {bound} s")


def about(options, load, seconds):
    command = " ".join(["bench/" + os.path.basename(sys.argv[0]), *sys.argv[1:]])
    return {"when": time.strftime("%Y-%m-%d %H:%M"), "seconds": round(seconds), "load": round(load, 1), "command": command,
            "machine": machine(), "versions": ("built before: " if options.no_build else "") + versions(options.peers), "rounds": f"{options.rounds} rounds of {options.seconds} s"}


def page():
    """Returns the kept results of all phases, the table of goals first."""
    kept = {name: json.loads(read(f"{KEPT}/{name}.json")) for name in PHASES if os.path.exists(f"{KEPT}/{name}.json")}
    lines = ["# Last figures", "", "Written by `bench/run --out FILE` or `bench/full`; `bench/README.md` says what the columns mean. `bench/results-attacks.md` has the attacks that are no phases.",
             f"Server on core {SERVER_CORE}, load on core {LOAD_CORE}, loopback; median [min..max].", "", "## Marks", "",
             "| figure | must reach | reached | there |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for phase in kept.values() for row in phase["marks"]]
    for name, phase in kept.items():
        a = phase["about"]
        while lines[-1] == "":
            lines.pop()
        lines += ["", f"## {name}", "", f"{a['when']}, {a['seconds']} s, load {a['load']} at the start; {a['machine']}; {a['rounds']}.",
                  f"`{a['command']}`", "", a["versions"], "", *phase["lines"]]
    return "\n".join(lines).rstrip() + "\n"
