"""Seconds of `cargo check` after one file was touched: how long an engineer waits for the compiler."""
import os, subprocess, time

from .machine import ROOT, machine, spread

RUNS = 5


def default_files():
    """Returns one file of the API and one of the model."""
    choices = [("crates/api/src/lib.rs", "src/api/mod.rs"), ("crates/model/src/lib.rs", "model/src/lib.rs")]
    return [next(path for path in of if os.path.exists(os.path.join(ROOT, path))) for of in choices]


def seconds_after(path):
    os.utime(os.path.join(ROOT, path))
    begin = time.monotonic()
    subprocess.run(["cargo", "check", "--quiet"], cwd=ROOT, check=True)
    return time.monotonic() - begin


def print_table(paths):
    subprocess.run(["cargo", "check", "--quiet"], cwd=ROOT, check=True)
    print(f"{machine()}; load {os.getloadavg()[0]:.1f} at the start; median [min..max] of {RUNS}\n")
    print("| touched file | seconds until `cargo check` is done |\n|---|---|")
    for path in paths:
        print(f"| {path} | {spread([seconds_after(path) for _ in range(RUNS)], 1)} |")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
