//! Fixed texts of the demo: the overview, headings, and commands to try.

use std::{
    env,
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
};

use super::{
    format::{self, Shares},
    playground::{CLUSTERS, PERIOD, Playground},
    script::client_of,
};
use crate::cli::{Cell, Palette, Tone, table};

/// Returns all addresses, and queries to try.
pub(super) fn overview(palette: Palette, playground: &Playground) -> String {
    let gateways: Vec<String> = CLUSTERS.iter().map(|c| format!("{} {}", c.name, c.address)).collect();
    let period = format::millis(PERIOD);
    let rows = [
        vec![Cell::from("name server"), format!("{} (UDP and TCP), zone demo.example", playground.dns).into()],
        vec!["gateways".into(), gateways.join("   ").into()],
        vec![
            "probes".into(),
            format!("http :{}/healthz/ready every {period}, 2 failures in a row mean down", playground.ports.ready)
                .into(),
        ],
        vec!["config".into(), playground.config.display().to_string().into()],
        vec!["page".into(), format!("http://{}/", playground.http).into()],
        vec!["metrics".into(), format!("http://{}/metrics", playground.http).into()],
    ];
    format!("\n{}\n{}", table(palette, 2, &[], rows), queries(palette, playground.dns))
}

/// Returns `dig` commands.
fn queries(palette: Palette, dns: SocketAddr) -> String {
    let dig = format!("dig @{} -p {} +short", dns.ip(), dns.port());
    let lines = [
        ("shop.demo.example", "weighted: eu1 60, us1 30, ap1 10"),
        ("pay.demo.example", "failover: eu1, then us1, then ap1"),
        ("www.demo.example AAAA", "a static record of the zone file"),
    ];
    let row =
        |(name, what): (&str, &str)| vec![Cell::new(Tone::Try, format!("{dig} {name}")), Cell::new(Tone::Quiet, what)];
    format!("Query it from another terminal:\n\n{}", table(palette, 2, &[], lines.map(row)))
}

/// Returns the heading of a step.
pub(super) fn heading(palette: Palette, number: &str, text: &str) -> String {
    format!("\n{}\n", palette.paint(Tone::Strong, &format!("{number}. {text}")))
}

/// Explains why many client networks are used.
pub(super) fn about_clients(palette: Palette) -> String {
    let text = "  One client always gets the same answer. To measure shares, the demo queries as many different\n  \
                clients: each query has another network in its ECS option (RFC 7871).";
    text.lines().map(|line| palette.paint(Tone::Quiet, line)).collect::<Vec<_>>().join("\n")
}

/// Returns the heading text of the second step.
pub(super) fn failure(envoy: bool) -> String {
    let how = if envoy { "its Envoy is killed" } else { "its listeners close" };
    format!("The gateway of eu1 dies: {how}")
}

/// Returns commands that the user can try.
pub(super) fn your_turn(palette: Palette, playground: &Playground, commands: SocketAddr, shares: &Shares) -> String {
    let try_it = |command: String, what: &str| vec![Cell::new(Tone::Try, command), Cell::new(Tone::Quiet, what)];
    let dig = format!("dig @{} -p {} +short", playground.dns.ip(), playground.dns.port());
    let post = format!("curl -X POST http://{commands}");
    let client = client_of(shares, CLUSTERS[2]).unwrap_or(Ipv4Addr::new(20, 0, 0, 0));
    let program = env::args().next().unwrap_or_else(|| "fairway".to_owned());
    let gateways = vec![
        try_it(format!("{post}/eu1/down"), "stop a gateway"),
        try_it(format!("{post}/us1/drain"), "drain one: readiness 503"),
        try_it(format!("{post}/eu1/up"), "start it again"),
        try_it(format!("{dig} shop.demo.example +subnet={client}/24"), "query as a client of ap1"),
        try_it(format!("curl http://$({dig} pay.demo.example):{}/", playground.ports.data), "send traffic"),
    ];
    let server = vec![
        try_it(format!("export FAIRWAY_DATA_DIR={}", playground.data_dir.display()), ""),
        try_it(format!("{program} status"), ""),
        try_it(format!("{program} explain shop.demo.example"), ""),
        try_it(format!("{program} override add eu1 drain --reason test --for 5m"), ""),
    ];
    let file = vec![try_it(format!("$EDITOR {}", playground.config.display()), "loaded when saved")];
    let mut text = heading(palette, "4", "Your turn: effects are shown here; Ctrl-C ends the demo");
    for part in [gateways, server, file] {
        let _ = write!(text, "\n{}", table(palette, 2, &[], part));
    }
    text.push('\n');
    text
}

/// Returns the last line.
pub(super) fn closing(palette: Palette, once: bool) -> String {
    if once { palette.paint(Tone::Good, "Everything happened as announced.") } else { "Ended.".to_owned() }
}
