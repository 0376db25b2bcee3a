"""Tools of the measurements: programs of this crate, clocks and memory of processes, packages, versions."""
import glob, os, platform, resource, shutil, statistics, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROFILE = "dist"  # the profile that is shipped
BIN = os.path.join(ROOT, "target", PROFILE)
SERVER_CORE, LOAD_CORE = "0", "1"
PACKAGES = {"gdnsd": "gdnsd", "knotd": "knot", "nsd": "nsd", "named": "bind9", "pdns_server": "pdns-server", "valgrind": "valgrind", "etcd": "etcd-server", "taskset": "util-linux", "wrk": "wrk"}
PEER_BINARY = {"gdnsd": "gdnsd", "knot": "knotd", "nsd": "nsd", "bind": "named", "pdns": "pdns_server", "hickory": "hickory-dns", "coredns": "coredns"}
# Peers that Debian does not have are built from their registries, once: about five minutes each.
PEERS = os.path.join(ROOT, "target", "peers")
BUILT = {
    "hickory-dns": (["cargo", "install", "hickory-dns", "--version", "0.26.3", "--locked", "--no-default-features", "--root", PEERS], {}),
    "coredns": (["go", "install", "github.com/coredns/coredns@v1.15.0"], {"GOBIN": f"{PEERS}/bin"}),
}
SERVERS_PATH = f"/usr/sbin:/usr/local/sbin:{PEERS}/bin"


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def tool(name, *args, timeout=60):
    """Returns the output of a program of this crate."""
    command = [os.path.join(BIN, name), *map(str, args)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout).stdout


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def read(path):
    with open(path) as file:
        return file.read()


def tree(pid):
    """Returns a process and all its descendants."""
    pids = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in read(f"/proc/{pid}/task/{task}/children").split():
                pids += tree(int(child))
    except OSError:
        pass
    return pids


def from_proc(pid, file, key):
    """Returns the sum of a kB line of a /proc file over a process tree, in MB."""
    total = 0
    for one in tree(pid):
        try:
            total += sum(int(l.split()[1]) for l in read(f"/proc/{one}/{file}").splitlines() if l.startswith(key))
        except OSError:
            pass
    return total / 1024


def pss_mb(pid):
    return from_proc(pid, "smaps_rollup", "Pss:")


def peak_mb(pid):
    """Returns the largest resident memory since the start, or since `forget_peak`."""
    return from_proc(pid, "status", "VmHWM:")


def forget_peak(pid):
    for one in tree(pid):
        write(f"/proc/{one}/clear_refs", "5")


class Watch:
    """Measures CPU time of a process tree, and accepted TCP connections. Processes that it starts later do not count."""

    def __init__(self, pid):
        self.pids = tree(pid)
        self.begin = self.now()

    def now(self):
        """Returns time, CPU seconds (in ticks of 10 ms) and connections, read directly after each other."""
        ticks = 0
        for pid in self.pids:
            fields = read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return time.monotonic(), ticks / os.sysconf("SC_CLK_TCK"), connections_accepted()

    def rates(self):
        """Returns the cores in use, and connections per second."""
        seconds, cpu, connections = (now - begin for now, begin in zip(self.now(), self.begin))
        return cpu / seconds, connections / seconds


def connections_accepted():
    """Returns the TCP connections that this machine has accepted since its start."""
    names, values = (l.split() for l in read("/proc/net/snmp").splitlines() if l.startswith("Tcp:"))
    return int(dict(zip(names, values))["PassiveOpens"])


def spread(values, places):
    return f"{statistics.median(values):.{places}f} [{min(values):.{places}f}..{max(values):.{places}f}]"


def allow_many_sockets():
    """Raises the limit of open files, which servers and targets inherit: over 10,000 probes are open at once."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 200_000), hard))


def install(programs):
    """Installs Debian's packages of missing programs. A policy-rc.d keeps their daemons from being started."""
    os.environ["PATH"] += ":" + SERVERS_PATH
    for program in programs:
        if program in BUILT and not shutil.which(program):
            command, variables = BUILT[program]
            say("building", program)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | variables, timeout=1800)
    missing = [PACKAGES[p] for p in programs if p not in BUILT and not shutil.which(p)]
    if "knotd" in programs and not glob.glob("/usr/lib/*/knot/modules-*/geoip.so"):
        missing.append("knot-module-geoip")
    if "pdns_server" in programs and not glob.glob("/usr/lib/*/pdns/libbindbackend.so"):
        missing.append("pdns-backend-bind")
    if not missing:
        return
    say("installing", *missing)
    as_root = [] if os.geteuid() == 0 else ["sudo"]
    if as_root and not shutil.which("sudo"):
        raise SystemExit(f"install these Debian packages as root: {' '.join(missing)}")
    run = lambda *command: subprocess.run([*as_root, *command], check=True, stdout=subprocess.DEVNULL, timeout=600)
    guard = "/usr/sbin/policy-rc.d"
    guarded = not os.path.exists(guard)
    if guarded:
        run("sh", "-c", f"printf '#!/bin/sh\\nexit 101\\n' >{guard} && chmod +x {guard}")
    try:
        run("apt-get", "update", "-qq")
        run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing)
    finally:
        if guarded:
            run("rm", "-f", guard)


def build(*arguments, profile=PROFILE):
    """Builds each package alone: together their features would be merged, and the server would differ from the one that is shipped."""
    for package in arguments or (["-p", "fairway"], ["-p", "fairway-bench"]):
        subprocess.run(["cargo", "build", "--profile", profile, "--quiet", *package], cwd=ROOT, check=True)


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (done.stdout + done.stderr).strip().splitlines()[0]
    except (OSError, IndexError):
        return "not installed"


def machine():
    model = next((l.split(":")[1].strip() for l in read("/proc/cpuinfo").splitlines() if l.startswith("model name")), "unknown")
    return f"{os.cpu_count()} × {model}, Linux {platform.release().split('-')[0]}"


def versions(peers):
    ask = {"gdnsd": ["gdnsd", "version"], "knot": ["knotd", "-V"], "nsd": ["nsd", "-v"], "bind": ["named", "-v"], "pdns": ["pdns_server", "--version"],
           "hickory": ["hickory-dns", "--version"], "coredns": ["coredns", "-version"]}
    commit = first_line(["git", "-C", ROOT, "describe", "--always", "--dirty"])
    # The phase `fuzz` does not build it.
    server = first_line([f"{BIN}/fairway", "version"]) if os.path.exists(f"{BIN}/fairway") else "fairway"
    lines = [f"{server} ({commit})", first_line(["rustc", "--version"]), *(first_line(ask[p]) for p in peers)]
    return "; ".join(lines)
