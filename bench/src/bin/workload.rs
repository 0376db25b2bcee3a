//! Writes the workload: a zone file, query files, and the configuration of the same steered names for each server.
//!
//! There are N steered names s0000000…, each with a weighted pool (70/20/10) of the same three targets 127.0.1.1, .2 and .3.

use std::io::{self, Write as _};

use clap::{Parser, ValueEnum};
use fairway_bench::{distinct_target, own_address};
use fairway_model::SplitMix;
use serde_json::{Value, json};

/// Prints one part of the workload.
#[derive(Parser)]
struct Options {
    /// The part.
    what: What,
    /// Number of names.
    #[arg(long, default_value_t = 10_000)]
    names: u64,
    /// The zone.
    #[arg(long, default_value = "bench.test")]
    origin: String,
    /// Port of the targets' HTTP health page.
    #[arg(long, default_value_t = 8181)]
    port: u16,
    /// First letter of the names in queries: n (static) or s (steered).
    #[arg(long, default_value = "n")]
    prefix: String,
    /// Number of queries.
    #[arg(long, default_value_t = 200_000)]
    queries: u64,
    /// Address of the DNS listener in Fairway's configuration.
    #[arg(long, default_value = "127.0.0.1:5300")]
    listen: String,
    /// Address of the HTTP listener in Fairway's configuration.
    #[arg(long, default_value = "off")]
    http: String,
    /// Writes Fairway's configuration as YAML instead of JSON.
    #[arg(long)]
    yaml: bool,
    /// Period and timeout of probes in Fairway's configuration.
    #[arg(long, default_value = "2s")]
    period: String,
    /// First octet of the addresses of static names. Zones with different values are distinguishable.
    #[arg(long, default_value_t = 10)]
    first_octet: u8,
    /// Number of failures until a target is down, in Fairway's configuration.
    #[arg(long, default_value_t = 2)]
    fall: u8,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Zone file of N names with one A record each.
    Zone,
    /// Queries: 94 % existing A records, 5 % names that do not exist, 1 % TXT or ANY.
    Queries,
    /// Fairway's configuration of the steered names, health-checked.
    Fairway,
    /// The same without health checks (monitor `always`), for counting instructions.
    FairwayAlways,
    /// Fairway's configuration with N distinct HTTP targets, 127.x.y.z.
    FairwayTargets,
    /// Fairway's configuration of N pools of three members, each with a distinct address and port.
    FairwayChecks,
    /// Zone file with gdnsd's dynamic records.
    GdnsdZone,
    /// Resources of gdnsd.
    GdnsdPools,
    /// Resources of gdnsd with N distinct HTTP targets.
    GdnsdTargets,
    /// Zone file with PowerDNS' Lua records.
    Pdns,
    /// Zone file with PowerDNS' Lua records and N distinct HTTP targets.
    PdnsTargets,
    /// Configuration of Knot's mod-geoip in mode weighted, which has no health checks.
    Knot,
    /// Zone file with the steered names as plain records, for servers whose module overlays them.
    Overlaid,
}

fn main() -> io::Result<()> {
    let options = Options::parse();
    io::stdout().lock().write_all(part(&options).as_bytes())
}

fn part(o: &Options) -> String {
    let Options { origin, port, .. } = o;
    let head = format!(
        "$ORIGIN {origin}.\n$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 127.0.0.1\n"
    );
    match o.what {
        What::Zone => {
            let first = o.first_octet;
            head + &each(o, |i| format!("n{i:07} IN A {first}.{}.{}.{}\n", i >> 16 & 255, i >> 8 & 255, i & 255))
        }
        What::Queries => queries(o),
        What::Fairway | What::FairwayAlways | What::FairwayTargets | What::FairwayChecks if o.yaml => yaml(&fairway(o)),
        What::Fairway | What::FairwayAlways | What::FairwayTargets | What::FairwayChecks => fairway(o).to_string(),
        What::GdnsdZone => head + &each(o, |i| format!("s{i:07} 60 DYNA weighted!p{i}\n")),
        What::GdnsdPools => each(o, |i| {
            let members = WEIGHTS.map(|(t, weight)| format!("t{t} => [ 127.0.1.{t}, {weight} ]")).join(", ");
            format!("p{i} => {{ service_types => hc, {members} }}\n")
        }),
        What::GdnsdTargets => {
            each(o, |i| format!("p{i} => {{ service_types => hc, t1 => [ {}, 1 ] }}\n", own_address(i)))
        }
        What::Pdns => {
            // Weights are expressed by repetition, since PowerDNS' selectors with health checks have no weights.
            let pool = [1, 1, 1, 1, 1, 1, 1, 2, 2, 3].map(|t| format!("'127.0.1.{t}'")).join(",");
            head + &each(o, |i| lua(i, *port, &pool, "interval=1, timeout=1"))
        }
        // PowerDNS starts to check a target at the first query for its name.
        What::PdnsTargets => head + &each(o, |i| lua(i, *port, &format!("'{}'", own_address(i)), "timeout=4")),
        What::Knot => each(o, |i| {
            let members = WEIGHTS.map(|(t, weight)| format!("- weight: {weight}\n  A: 127.0.1.{t}\n")).concat();
            format!("s{i:07}.{origin}.:\n{members}")
        }),
        What::Overlaid => head + &each(o, |i| WEIGHTS.map(|(t, _)| format!("s{i:07} IN A 127.0.1.{t}\n")).concat()),
    }
}

/// Number of each target, which is the last octet of its address, and its weight.
const WEIGHTS: [(u64, u16); 3] = [(1, 70), (2, 20), (3, 10)];

fn each(o: &Options, text: impl Fn(u64) -> String) -> String {
    (0..o.names).map(text).collect()
}

/// Returns a record of PowerDNS with the live ones of a pool.
fn lua(number: u64, port: u16, pool: &str, options: &str) -> String {
    let url = format!("http://hc.test:{port}/health");
    format!("s{number:07} 60 IN LUA A \"ifurlup('{url}', {{ {{ {pool} }} }}, {{ {options} }})\"\n")
}

/// Returns a fixed sequence of queries, so that every run sends the same.
fn queries(o: &Options) -> String {
    let mut random = SplitMix::new(1);
    let Options { origin, prefix, .. } = o;
    let mut query = |_| {
        let (name, kind) = (random.below(o.names), random.below(100));
        match kind {
            0..5 => format!("nx{:06}.{origin} A\n", name % 1_000_000),
            5 => format!("{prefix}{name:07}.{origin} {}\n", if random.below(2) == 0 { "TXT" } else { "ANY" }),
            _ => format!("{prefix}{name:07}.{origin} A\n"),
        }
    };
    (0..o.queries).map(&mut query).collect()
}

/// Returns Fairway's configuration.
fn fairway(o: &Options) -> Value {
    let http = json!({
        "name": "hc", "type": "http", "path": "/health", "port": o.port,
        "period": o.period, "timeout": o.period, "rise": 1, "fall": o.fall,
    });
    let monitor = if let What::FairwayAlways = o.what { json!({ "name": "hc", "type": "always" }) } else { http };
    let policy = if let What::FairwayTargets = o.what { "failover" } else { "weighted" };
    let clusters: Vec<Value> = match o.what {
        What::FairwayTargets => (0..o.names).map(own_cluster).collect(),
        What::FairwayChecks => (0..o.names * 3).map(own_cluster).collect(),
        _ => WEIGHTS.map(|(t, _)| json!({ "name": format!("t{t}"), "addresses": [format!("127.0.1.{t}")] })).into(),
    };
    let members = |i: u64| match o.what {
        What::FairwayTargets => json!([{ "cluster": format!("t{i}") }]),
        What::FairwayChecks => {
            (i * 3..i * 3 + 3).map(|t| json!({ "cluster": format!("t{t}"), "probe": distinct_target(t) })).collect()
        }
        _ => WEIGHTS.iter().map(|(t, weight)| json!({ "cluster": format!("t{t}"), "weight": weight })).collect(),
    };
    let pool =
        |i| json!({ "name": format!("p{i}"), "policy": policy, "ttl": "60s", "monitor": "hc", "members": members(i) });
    let name = |i| json!({ "name": format!("s{i:07}.{}", o.origin), "pool": format!("p{i}") });
    json!({
        "version": 1,
        "listen": { "dns": [o.listen], "http": o.http },
        "udp": { "workers": 1 },
        "zones": [{ "name": o.origin, "file": "zone" }],
        "monitors": [monitor],
        "clusters": clusters,
        "pools": (0..o.names).map(pool).collect::<Value>(),
        "names": (0..o.names).map(name).collect::<Value>(),
    })
}

fn own_cluster(number: u64) -> Value {
    json!({ "name": format!("t{number}"), "addresses": [own_address(number)] })
}

/// Writes an object as YAML, with a line for each item of its lists.
fn yaml(config: &Value) -> String {
    let field = |(key, value): (&String, &Value)| match value {
        Value::Array(items) => {
            format!("{key}:\n") + &items.iter().map(|item| format!("- {item}\n")).collect::<String>()
        }
        value => format!("{key}: {value}\n"),
    };
    config.as_object().into_iter().flatten().map(field).collect()
}
