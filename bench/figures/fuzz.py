"""The phase `fuzz`: the full counts of the fuzz targets for what clients send."""
import os, random, re, subprocess, time

from .machine import ROOT, say

PROFILE = "fuzz"  # optimized, with overflow checks and debug assertions
BUILD = ["-p", "fairway-fuzz", "--features", "server"]
BIN = os.path.join(ROOT, "target", PROFILE, "fairway-fuzz")
# Targets, and the part of `--fuzz` that each runs: 10^8 packets, 10^7 HTTP heads and bodies, 10^6 batches of the webhook.
TARGETS = {"packet": 1, "http": 10, "webhook": 100}
# The last line of a run without a finding (fuzz/src/main.rs).
SUMMARY = re.compile(r"(\d+) inputs, (\d+) kept, no rule broken; memory ([\d.]+) MiB after the warm-up, ([\d.]+) at the end \(at most (\d+) more\)")


def fuzz(bench):
    """Runs each target with a seed of its own, which the table has: `fairway-fuzz TARGET --inputs N --seed SEED` repeats the run."""
    rows, failed = [], []
    for target, part in TARGETS.items():
        count, seed = max(bench.options.fuzz // part, 1), random.randrange(1, 100_000)
        status, text, seconds = run(bench, target, count, seed)
        found = SUMMARY.search(text)
        inputs, kept, first, last, most = found.groups() if found else ["-"] * 5
        # A run ends with its first crash. Memory that grew is reported too, after the summary.
        crashes = 0 if found else 1
        rows.append([target, inputs, seed, f"{seconds:.0f}", kept, crashes, first, last])
        bench.mark(f"inputs that break a rule, {count:,} of the fuzz target {target}", crashes, 0)
        if found:
            bench.mark(f"growth of memory from a quarter of {count:,} inputs to the end, fuzz target {target}", float(last) - float(first), int(most), "MiB", places=1)
        if status != 0 or not found or int(inputs) < count:
            say(text.strip())
            failed.append(f"{target} with seed {seed} (exit status {status})")
    bench.print("### Fuzz targets, build with overflow checks and debug assertions\n")
    bench.table(["target", "inputs", "seed", "seconds", "kept", "crashes", "memory after a quarter MiB", "memory at the end MiB"], rows)
    if failed:
        raise RuntimeError(f"failed: {', '.join(failed)}")


def run(bench, target, count, seed):
    """Returns the exit status, the output and the seconds of a run."""
    say(f"   {target}: {count:,} inputs, seed {seed}")
    begin = time.monotonic()
    process = bench.run(target, [BIN, target, "--inputs", count, "--seed", seed], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text, _ = process.communicate()
    return process.returncode, text, time.monotonic() - begin
