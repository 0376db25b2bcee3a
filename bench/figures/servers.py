"""Configurations of the servers: each function writes one into `folder` and returns the command that runs it in the foreground."""
import os, shutil

from .machine import BIN, tool, write

ORIGIN, HEALTH_PORT = "bench.test", 8181


def limit(port, ecs=False):
    return [os.path.join(BIN, "dnslimit"), "--listen", f"127.0.0.1:{port}", *(["--ecs"] if ecs else [])]


def fairway(folder, port, zone, more=""):
    shutil.copy(zone, f"{folder}/zone")
    return serve(folder, f"""version: 1
listen: {{ dns: ["127.0.0.1:{port}"], http: "off" }}
udp: {{ workers: 1 }}
zones: [{{ name: {ORIGIN}, file: zone }}]
{more}""")


def fairway_steered(folder, port, what, names, *extra, zone=None, http=None):
    """Writes the part `what` of `workload`, with the HTTP listener on the port `http`."""
    if zone:
        shutil.copy(zone, f"{folder}/zone")
    else:
        write(f"{folder}/zone", tool("workload", "zone", "--names", 0, "--origin", ORIGIN))
    listen = ["--listen", f"127.0.0.1:{port}", "--port", HEALTH_PORT, "--origin", ORIGIN, "--names", names]
    listen += ["--http", f"127.0.0.1:{http}"] if http else []
    return serve(folder, tool("workload", what, *listen, *extra))


def serve(folder, text):
    """Writes a configuration, in YAML or JSON, next to its zone."""
    os.makedirs(f"{folder}/config", exist_ok=True)
    shutil.move(f"{folder}/zone", f"{folder}/config/zone")
    path = write(f"{folder}/config/0000.yaml", text)
    return [os.path.join(BIN, "fairway"), "serve", "--config", path, "--data-dir", f"{folder}/data", "--log", "warn"]


def gdnsd(folder, port, zone, plugins=""):
    for sub in ("zones", "run", "state"):
        os.makedirs(f"{folder}/{sub}", exist_ok=True)
    shutil.copy(zone, f"{folder}/zones/{ORIGIN}")
    write(f"{folder}/config", f"options => {{ listen => 127.0.0.1:{port}, udp_threads => 1, tcp_threads => 1, "
          f"run_dir => {folder}/run, state_dir => {folder}/state }}\n{plugins}\n")
    return ["gdnsd", "-c", folder, "start"]


def gdnsd_steered(folder, port, what, names, interval=2, timeout=1):
    write(f"{folder}.zone", tool("workload", "gdnsd-zone", "--names", names, "--origin", ORIGIN))
    os.makedirs(folder, exist_ok=True)
    write(f"{folder}/pools.cfg", tool("workload", what, "--names", names))
    return gdnsd(folder, port, f"{folder}.zone", f"""service_types => {{ hc => {{ plugin => http_status, port => {HEALTH_PORT},
  url_path => /health, interval => {interval}, timeout => {timeout}, up_thresh => 1, ok_thresh => 1, down_thresh => 1 }} }}
plugins => {{ weighted => {{ up_thresh => 0.01, $include{{pools.cfg}} }} }}""")


def knot(folder, port, zone, module="", use=""):
    os.makedirs(f"{folder}/db", exist_ok=True)
    shutil.copy(zone, f"{folder}/zone")
    return ["knotd", "-c", write(f"{folder}/knot.conf", f"""server:
  listen: 127.0.0.1@{port}
  udp-workers: 1
  tcp-workers: 1
  background-workers: 1
  rundir: {folder}
database:
  storage: {folder}/db
log:
  - target: stderr
    any: warning
{module}
zone:
  - domain: {ORIGIN}
    storage: {folder}
    file: zone
    zonefile-load: whole
    journal-content: none
    semantic-checks: off
{use}
""")]


def knot_steered(folder, port, names):
    """Writes a configuration of mod-geoip in mode weighted, which has no health checks."""
    zone = write(f"{folder}.zone", tool("workload", "overlaid", "--names", names, "--origin", ORIGIN))
    write(f"{folder}/geo.yml", tool("workload", "knot", "--names", names, "--origin", ORIGIN))
    return knot(folder, port, zone, f"mod-geoip:\n  - id: g\n    config-file: {folder}/geo.yml\n    ttl: 60\n    mode: weighted",
                "    module: mod-geoip/g")


def nsd(folder, port, zone):
    shutil.copy(zone, f"{folder}/zone")
    return ["nsd", "-d", "-c", write(f"{folder}/nsd.conf", f"""server:
  ip-address: 127.0.0.1@{port}
  server-count: 1
  username: ""
  chroot: ""
  zonesdir: "{folder}"
  database: ""
  pidfile: "{folder}/nsd.pid"
  xfrdfile: "{folder}/xfrd.state"
  zonelistfile: "{folder}/zone.list"
  xfrdir: "{folder}"
  rrl-ratelimit: 0
  rrl-whitelist-ratelimit: 0
  minimal-responses: yes
remote-control:
  control-enable: no
zone:
  name: {ORIGIN}
  zonefile: zone
""")]


def bind(folder, port, zone):
    shutil.copy(zone, f"{folder}/zone")
    return ["named", "-f", "-n", "1", "-U", "1", "-c", write(f"{folder}/named.conf", f"""
options {{ directory "{folder}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; pid-file "{folder}/named.pid";
  session-keyfile "{folder}/session.key"; lock-file none; dnssec-validation no; notify no; minimal-responses yes; querylog no; zone-statistics none; }};
controls {{ }};
zone "{ORIGIN}" {{ type primary; file "zone"; check-names ignore; }};
""")]


def pdns(folder, port, zone, interval=1):
    shutil.copy(zone, f"{folder}/zone")
    write(f"{folder}/named.conf", f'zone "{ORIGIN}" {{ type master; file "{folder}/zone"; }};')
    write(f"{folder}/pdns.conf", f"""launch=bind
bind-config={folder}/named.conf
local-address=127.0.0.1
local-port={port}
receiver-threads=1
distributor-threads=1
socket-dir={folder}
daemon=no
guardian=no
webserver=no
api=no
loglevel=3
security-poll-suffix=
enable-lua-records=shared
lua-health-checks-interval={interval}
""")
    return ["pdns_server", f"--config-dir={folder}"]


def hickory(folder, port, zone):
    shutil.copy(zone, f"{folder}/zone")
    return ["hickory-dns", "-q", "--workers", "1", "-c", write(f"{folder}/named.toml", f"""user = "nobody"
group = "nogroup"
listen_addrs_ipv4 = ["127.0.0.1"]
listen_port = {port}
directory = "{folder}"
[[zones]]
zone = "{ORIGIN}"
zone_type = "Primary"
file = "zone"
""")]


def coredns(folder, port, zone):
    """Limits CoreDNS to one core, as the others: Go would use all."""
    shutil.copy(zone, f"{folder}/zone")
    return ["env", "GOMAXPROCS=1", "coredns", "-conf", write(f"{folder}/Corefile", f"""{ORIGIN}:{port} {{
  bind 127.0.0.1
  file {folder}/zone
}}
""")]


def static(name):
    """Returns the function that writes the configuration for a zone file."""
    return {"fairway": fairway, "gdnsd": gdnsd, "knot": knot, "nsd": nsd, "bind": bind, "pdns": pdns, "hickory": hickory, "coredns": coredns}[name]


def zone_file(name, folder):
    """Returns the path of the zone that `static` has written."""
    return {"fairway": f"{folder}/config/zone", "gdnsd": f"{folder}/zones/{ORIGIN}"}.get(name, f"{folder}/zone")


def reload_command(name, folder, pid):
    return {
        "gdnsd": ["gdnsdctl", "-c", folder, "reload-zones"],
        "knot": ["knotc", "-c", f"{folder}/knot.conf", "zone-reload", ORIGIN],
        "pdns": ["pdns_control", f"--config-dir={folder}", "bind-reload-now", ORIGIN],
    }.get(name, ["kill", "-HUP", str(pid)])
