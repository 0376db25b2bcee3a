"""Instructions per query of the answer path alone, compared with the baseline: counts that repeat on any machine."""
import os, subprocess

from .machine import BIN, ROOT, first_line, read, write

BASELINE = os.path.join(ROOT, "bench", "tripwire.tsv")
KINDS = ["hit", "hit-edns", "nxdomain", "nodata", "wildcard", "cname", "chain", "referral", "weighted", "weighted-ecs", "nearest",
         "nearest-ecs", "refused"]
# Names are hashed with a random key. So two runs differ in what they spend on the start, which many queries make small, and an unlucky key
# puts a name that every query meets behind others, which the least of some runs leaves out.
SHORT, LONG, NAMES, RUNS = 500, 40_500, 200, 3
# Another compiler changes counts by a few percent; a careless change adds more.
TOLERANCE = 0.10


def total(out):
    """Returns the instructions in a callgrind file."""
    return int(next(l for l in read(out).splitlines() if l.startswith("totals:")).split()[1])


def callgrind(out, command):
    subprocess.run(["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}", *command], check=True,
                   stdout=subprocess.DEVNULL, timeout=300)
    return total(out)


def count(kind, work):
    """Returns the user instructions per query of one kind: the difference of a long and a short run, the least of some."""
    ask = [f"{BIN}/respond", "--kind", kind, "--names", str(NAMES), "--count"]

    def run():
        short, long = (callgrind(f"{work}/callgrind.{kind}", [*ask, str(n)]) for n in (SHORT, LONG))
        return (long - short) / (LONG - SHORT)

    return min(run() for _ in range(RUNS))


def measure(work):
    return {kind: count(kind, work) for kind in KINDS}


def baseline():
    rows = (line.split("\t") for line in read(BASELINE).splitlines() if line and not line.startswith("#"))
    return {kind: float(value) for kind, value in rows}


def bless(counts):
    """Writes the measured counts as the new baseline."""
    head = (f"# User instructions per query of `respond`; more than {TOLERANCE:.0%} above is an error. "
            f"Written by `bench/run --tripwire --bless`, {first_line(['rustc', '--version'])}.\n")
    write(BASELINE, head + "".join(f"{kind}\t{value:.0f}\n" for kind, value in counts.items()))


def compare(counts):
    """Prints the counts and the baseline. Returns the kinds that grew."""
    expected, grown = baseline(), []
    print(f"{'kind':<14}{'expected':>10}{'now':>10}{'change':>9}")
    for kind, value in counts.items():
        before = expected.get(kind)
        change = None if before is None else value / before - 1
        late = change is None or change > TOLERANCE
        grown += [kind] if late else []
        print(f"{kind:<14}{before or 0:>10.0f}{value:>10.0f}{'new' if change is None else f'{change:+.1%}':>9}{'  too much' if late else ''}")
    return grown
