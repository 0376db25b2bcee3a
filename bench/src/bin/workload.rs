//! Writes the workload: a zone file, query files, and the configuration of the same steered names for each server.
//!
//! There are N steered names s0000000…, each with a weighted pool (70/20/10) of the same three targets 127.0.1.1, .2 and .3.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
};

use clap::{Parser, ValueEnum};
use fairway_bench::{distinct_target, own_address};

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
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_part(&options, &mut text);
    io::stdout().lock().write_all(text.as_bytes())
}

fn write_part(o: &Options, out: &mut String) -> std::fmt::Result {
    match o.what {
        What::Zone => {
            head(o, out)?;
            (0..o.names).try_for_each(|i| writeln!(out, "n{i:07} IN A {}.{}.{}.{}", o.first_octet, i >> 16 & 255, i >> 8 & 255, i & 255))
        }
        What::Queries => queries(o, out),
        What::Fairway => fairway(o, out, "type: http, path: /health"),
        What::FairwayAlways => fairway(o, out, "type: always"),
        What::FairwayTargets => fairway_targets(o, out),
        What::FairwayChecks => fairway_checks(o, out),
        What::GdnsdZone => {
            head(o, out)?;
            (0..o.names).try_for_each(|i| writeln!(out, "s{i:07} 60 DYNA weighted!p{i}"))
        }
        What::GdnsdPools => (0..o.names).try_for_each(|i| {
            writeln!(out, "p{i} => {{ service_types => hc, t1 => [ 127.0.1.1, 70 ], t2 => [ 127.0.1.2, 20 ], t3 => [ 127.0.1.3, 10 ] }}")
        }),
        What::GdnsdTargets => (0..o.names).try_for_each(|i| writeln!(out, "p{i} => {{ service_types => hc, t1 => [ {}, 1 ] }}", own_address(i))),
        What::Pdns => pdns(o, out),
        What::PdnsTargets => pdns_targets(o, out),
        What::Knot => (0..o.names).try_for_each(|i| {
            let origin = &o.origin;
            writeln!(out, "s{i:07}.{origin}.:\n- weight: 70\n  A: 127.0.1.1\n- weight: 20\n  A: 127.0.1.2\n- weight: 10\n  A: 127.0.1.3")
        }),
        What::Overlaid => {
            head(o, out)?;
            (0..o.names).try_for_each(|i| (1..=3).try_for_each(|t| writeln!(out, "s{i:07} IN A 127.0.1.{t}")))
        }
    }
}

fn head(o: &Options, out: &mut String) -> std::fmt::Result {
    let origin = &o.origin;
    writeln!(
        out,
        "$ORIGIN {origin}.\n$TTL 60\n@ IN SOA ns1 hostmaster 1 3600 600 86400 60\n@ IN NS ns1\nns1 IN A 127.0.0.1"
    )
}

/// Writes a fixed sequence of queries (xorshift64), so that every run sends the same.
fn queries(o: &Options, out: &mut String) -> std::fmt::Result {
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..o.queries {
        let (name, kind) = (next() % o.names, next() % 100);
        match kind {
            0..5 => writeln!(out, "nx{:06}.{} A", name % 1_000_000, o.origin)?,
            5 => writeln!(out, "{}{name:07}.{} {}", o.prefix, o.origin, if next() % 2 == 0 { "TXT" } else { "ANY" })?,
            _ => writeln!(out, "{}{name:07}.{} A", o.prefix, o.origin)?,
        }
    }
    Ok(())
}

fn fairway_head(o: &Options, out: &mut String, check: &str) -> std::fmt::Result {
    let port = if check.contains("http") { format!(", port: {}", o.port) } else { String::new() };
    let times = if check.contains("http") {
        format!(", period: {0}, timeout: {0}, rise: 1, fall: {1}", o.period, o.fall)
    } else {
        String::new()
    };
    writeln!(out, "version: 1\nlisten: {{ dns: [\"{}\"], http: \"off\" }}", o.listen)?;
    writeln!(out, "udp: {{ workers: 1 }}")?;
    writeln!(out, "zones: [{{ name: {}, file: zone }}]", o.origin)?;
    writeln!(out, "monitors: [{{ name: hc, {check}{port}{times} }}]")
}

fn fairway(o: &Options, out: &mut String, check: &str) -> std::fmt::Result {
    fairway_head(o, out, check)?;
    writeln!(out, "clusters:")?;
    (1..=3).try_for_each(|t| writeln!(out, "- {{ name: t{t}, addresses: [127.0.1.{t}] }}"))?;
    writeln!(out, "pools:")?;
    for i in 0..o.names {
        writeln!(
            out,
            "- {{ name: p{i}, policy: weighted, ttl: 60s, monitor: hc, members: [{{ cluster: t1, weight: 70 }}, {{ cluster: t2, weight: 20 }}, {{ cluster: t3, weight: 10 }}] }}"
        )?;
    }
    writeln!(out, "names:")?;
    (0..o.names).try_for_each(|i| writeln!(out, "- {{ name: s{i:07}.{}, pool: p{i} }}", o.origin))
}

fn fairway_targets(o: &Options, out: &mut String) -> std::fmt::Result {
    fairway_head(o, out, "type: http, path: /health")?;
    writeln!(out, "clusters:")?;
    (0..o.names).try_for_each(|i| writeln!(out, "- {{ name: t{i}, addresses: [{}] }}", own_address(i)))?;
    writeln!(out, "pools:")?;
    (0..o.names).try_for_each(|i| {
        writeln!(out, "- {{ name: p{i}, policy: failover, monitor: hc, members: [{{ cluster: t{i} }}] }}")
    })?;
    writeln!(out, "names:")?;
    (0..o.names).try_for_each(|i| writeln!(out, "- {{ name: s{i:07}.{}, pool: p{i} }}", o.origin))
}

fn fairway_checks(o: &Options, out: &mut String) -> std::fmt::Result {
    fairway_head(o, out, "type: http, path: /health")?;
    writeln!(out, "clusters:")?;
    (0..o.names * 3).try_for_each(|i| writeln!(out, "- {{ name: t{i}, addresses: [{}] }}", own_address(i)))?;
    writeln!(out, "pools:")?;
    for i in 0..o.names {
        let [a, b, c] = [0, 1, 2].map(|k| {
            let number = i * 3 + k;
            format!("{{ cluster: t{number}, probe: \"{}\" }}", distinct_target(number))
        });
        writeln!(out, "- {{ name: p{i}, policy: weighted, monitor: hc, members: [{a}, {b}, {c}] }}")?;
    }
    writeln!(out, "names:")?;
    (0..o.names).try_for_each(|i| writeln!(out, "- {{ name: s{i:07}.{}, pool: p{i} }}", o.origin))
}

/// Writes PowerDNS records with distinct targets. PowerDNS starts to check a target at the first query for its name.
fn pdns_targets(o: &Options, out: &mut String) -> std::fmt::Result {
    head(o, out)?;
    (0..o.names).try_for_each(|i| {
        let (url, address) = (format!("http://hc.test:{}/health", o.port), own_address(i));
        writeln!(out, "s{i:07} 60 IN LUA A \"ifurlup('{url}', {{ {{ '{address}' }} }}, {{ timeout=4 }})\"")
    })
}

/// Writes PowerDNS records. Weights are expressed by repetition, since PowerDNS' selectors with health checks have no weights.
fn pdns(o: &Options, out: &mut String) -> std::fmt::Result {
    head(o, out)?;
    let share = |i| {
        if i < 7 {
            1
        } else if i < 9 {
            2
        } else {
            3
        }
    };
    let pool: Vec<String> = (0..10).map(|i| format!("'127.0.1.{}'", share(i))).collect();
    let pool = pool.join(",");
    for i in 0..o.names {
        let url = format!("http://hc.test:{}/health", o.port);
        writeln!(out, "s{i:07} 60 IN LUA A \"ifurlup('{url}', {{ {{ {pool} }} }}, {{ interval=1, timeout=1 }})\"")?;
    }
    Ok(())
}
