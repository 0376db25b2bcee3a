"""Runs the parts of a phase: starts and stops servers, puts load on them, and records tables and marks."""
import json, os, shutil, statistics, subprocess, time

from . import servers
from .machine import BIN, LOAD_CORE, SERVER_CORE, pss_mb, read, say, spread, tool, tree, write

PORT = 5600


class Bench:
    """`lines` is the text of the phase, `marks` its rows of the table of goals: figure, goal, value, and if the goal is reached."""

    def __init__(self, options, work):
        self.options, self.work, self.running, self.lines, self.marks = options, work, {}, [], []
        self.port = PORT

    # ---- processes ----

    def folder(self, name):
        path = f"{self.work}/{name}"
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        return path

    def next_port(self):
        self.port += 1
        return self.port

    def start(self, name, command, probe, wait=60, port=None):
        """Starts a server on the server's core. Returns the milliseconds to its first right answer, and its process id."""
        since = tool("waitfor", "--clock").strip()
        self.run(name, ["taskset", "-c", SERVER_CORE, *command])
        done = subprocess.run([f"{BIN}/waitfor", "--server", f"127.0.0.1:{port or self.port}", "--name", probe, "--since", since,
                               "--timeout", str(wait)], capture_output=True, text=True, timeout=wait + 20)
        if done.returncode != 0:
            raise RuntimeError(f"{name} gave no answer within {wait} s; its log ends:\n{read(f'{self.work}/{name}.log')[-600:]}")
        return float(done.stdout.split()[0]), self.running[name].pid

    def run(self, name, command, **how):
        """Starts a program that `stop` ends."""
        with open(f"{self.work}/{name}.log", "w") as log:
            self.running[name] = subprocess.Popen(list(map(str, command)), **{"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **how})
        return self.running[name]

    def targets(self, *arguments, name="targets", **how):
        """Starts the health targets on the core of the load."""
        return self.run(name, ["taskset", "-c", LOAD_CORE, f"{BIN}/targets", "--port", servers.HEALTH_PORT, *arguments], **how)

    def stop(self, name):
        process = self.running.pop(name, None)
        if process is None:
            return
        pids = tree(process.pid)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            pass
        for pid in pids:
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        process.wait()

    def stop_all(self):
        for name in list(self.running):
            self.stop(name)

    # ---- results ----

    def print(self, *words):
        line = " ".join(map(str, words))
        print(line, flush=True)
        self.lines.append(line)

    def table(self, head, rows):
        self.print("| " + " | ".join(head) + " |")
        self.print("|" + "---|" * len(head))
        for row in rows:
            self.print("| " + " | ".join(map(str, row)) + " |")
        self.print("")

    def mark(self, figure, value, limit, unit="", at_least=False, places=0):
        """Records a figure and its goal. Without a value, the goal is missed."""
        sign = "≥" if at_least else "≤"
        reached = value is not None and (value >= limit if at_least else value <= limit)
        self.marks.append([figure, f"{sign} {limit:,} {unit}".strip(), "-" if value is None else f"{value:,.{places}f} {unit}".strip(),
                           "yes" if reached else "no"])

    def print_marks(self):
        """Prints the goals of the phase. The page of results has those of all phases in one table."""
        for figure, most, reached, there in self.marks:
            say(f"   {figure}: {reached} (must be {most}){'' if there == 'yes' else '  NOT THERE'}")

    # ---- workload and load ----

    def zone(self, names, first_octet=10):
        text = tool("workload", "zone", "--names", names, "--origin", servers.ORIGIN, "--first-octet", first_octet)
        return write(f"{self.work}/zone-{names}-{first_octet}", text)

    def queries(self, names, prefix="n", count=200_000):
        text = tool("workload", "queries", "--names", names, "--origin", servers.ORIGIN, "--prefix", prefix, "--queries", count)
        return write(f"{self.work}/queries-{prefix}-{names}", text)

    def load_command(self, port, pid, queries, *args):
        pids = ",".join(map(str, tree(pid)))
        command = ["taskset", "-c", LOAD_CORE, f"{BIN}/dnsgen", "--server", f"127.0.0.1:{port}", "--file", queries, "--pids", pids]
        return [*command, *map(str, args)]

    def load(self, port, pid, queries, *args, echo=False):
        command = self.load_command(port, pid, queries, *args, *(["--echo"] if echo else []))
        return json.loads(subprocess.check_output(command, text=True, timeout=600))

    def compare(self, title, commands, queries, probe, *load_args):
        """Measures servers in turn (A B C, A B C) while the others are idle. Returns the median share of the limit of each."""
        up, rounds = {}, {name: [] for name in commands}
        for name, command in commands.items():
            port = self.next_port()
            start_ms, pid = self.start(name, command(port), probe)
            up[name] = (port, pid, start_ms)
        for _ in range(self.options.rounds):
            for name, (port, pid, _) in up.items():
                rounds[name].append(self.load(port, pid, queries, "--dur", self.options.seconds, *load_args, echo=name == "limit"))
        rows, shares, base = [], {}, [r["server_cpu_ns"] for r in rounds["limit"]]
        for name, (port, pid, start_ms) in up.items():
            done = rounds[name]
            cpu = [r["server_cpu_ns"] for r in done]
            of_limit = [b / c for b, c in zip(base, cpu)]
            shares[name] = statistics.median(of_limit)
            rows.append([name, spread(cpu, 0), spread(of_limit, 3), f"{1 / shares[name]:.2f}", f"{max(r['qps'] for r in done):.0f}",
                         f"{pss_mb(pid):.1f}", f"{start_ms:.0f}", sum(r["wrong"] for r in done), sum(r["lost"] for r in done)])
        for name in up:
            self.stop(name)
        if wrong := sum(r["wrong"] for r in rounds["fairway"]):
            raise RuntimeError(f"{title}: {wrong} wrong answers")
        self.print(f"### {title}\n")
        self.table(["server", "CPU ns per query", "of limit", "times the limit's CPU", "best qps", "PSS MB", "start ms", "wrong", "lost"], rows)
        return shares

    def settle(self, seconds):
        """Waits, so that the server settles."""
        if seconds >= 1:
            say(f"   {seconds:.0f} s")
        time.sleep(seconds)
