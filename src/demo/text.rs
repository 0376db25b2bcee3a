//! What the demo says beside what it measures: the setting, headings, and what to try.

use std::{
    env,
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
};

use super::{
    acts::example_client,
    show::{self, Shares},
    stage::{CLUSTERS, PERIOD, Stage},
};
use crate::cli::{Cell, Palette, Tone, table};

/// Where everything is, and what to ask.
pub(super) fn setting(palette: Palette, stage: &Stage) -> String {
    let gateways: Vec<String> = CLUSTERS.iter().map(|c| format!("{} {}", c.name, c.address)).collect();
    let period = show::millis(PERIOD);
    let rows = [
        vec![Cell::from("name server"), format!("{} (UDP and TCP), zone demo.example", stage.dns).into()],
        vec!["gateways".into(), gateways.join("   ").into()],
        vec![
            "probes".into(),
            format!("http :{}/healthz/ready every {period}, 2 failures in a row mean down", stage.ports.ready).into(),
        ],
        vec!["config".into(), stage.config.display().to_string().into()],
        vec!["metrics".into(), format!("http://{}/metrics", stage.http).into()],
    ];
    format!("\n{}\n{}", table(palette, 2, &[], &rows), questions(palette, stage.dns))
}

/// The `dig` lines.
fn questions(palette: Palette, dns: SocketAddr) -> String {
    let dig = format!("dig @{} -p {} +short", dns.ip(), dns.port());
    let lines = [
        ("shop.demo.example", "weighted: eu1 60, us1 30, ap1 10"),
        ("pay.demo.example", "failover: eu1, then us1, then ap1"),
        ("www.demo.example AAAA", "a static record of the zone file"),
    ];
    let row =
        |(name, what): (&str, &str)| vec![Cell::new(Tone::Try, format!("{dig} {name}")), Cell::new(Tone::Quiet, what)];
    let rows: Vec<_> = lines.into_iter().map(row).collect();
    format!("Ask it from another terminal:\n\n{}", table(palette, 2, &[], &rows))
}

/// A heading of an act.
pub(super) fn heading(palette: Palette, number: &str, text: &str) -> String {
    format!("\n{}\n", palette.paint(Tone::Strong, &format!("{number}. {text}")))
}

/// Why many networks are asked for.
pub(super) fn about_clients(palette: Palette) -> String {
    let text = "  One client always gets the same answer. To see shares, the demo asks as many different clients:\n  \
                each query carries another network in its ECS option (RFC 7871).";
    text.lines().map(|line| palette.paint(Tone::Quiet, line)).collect::<Vec<_>>().join("\n")
}

/// What the second act does.
pub(super) fn death(envoy: bool) -> String {
    let how = if envoy { "its Envoy is killed" } else { "its listeners close" };
    format!("The gateway of eu1 dies: {how}")
}

/// What the visitor can do now.
pub(super) fn your_turn(palette: Palette, stage: &Stage, remote: SocketAddr, shares: &Shares) -> String {
    let try_it = |command: String, what: &str| vec![Cell::new(Tone::Try, command), Cell::new(Tone::Quiet, what)];
    let dig = format!("dig @{} -p {} +short", stage.dns.ip(), stage.dns.port());
    let post = format!("curl -X POST http://{remote}");
    let client = example_client(shares, CLUSTERS[2]).unwrap_or(Ipv4Addr::new(20, 0, 0, 0));
    let program = env::args().next().unwrap_or_else(|| "fairway".to_owned());
    let gateways = [
        try_it(format!("{post}/eu1/down"), "a gateway dies"),
        try_it(format!("{post}/us1/drain"), "one drains: readiness 503"),
        try_it(format!("{post}/eu1/up"), "and comes back"),
        try_it(format!("{dig} shop.demo.example +subnet={client}/24"), "as a client of ap1"),
        try_it(format!("curl http://$({dig} pay.demo.example):{}/", stage.ports.data), "traffic follows"),
    ];
    let server = [
        try_it(format!("export FAIRWAY_DATA_DIR={}", stage.data_dir.display()), ""),
        try_it(format!("{program} status"), ""),
        try_it(format!("{program} explain shop.demo.example"), ""),
        try_it(format!("{program} override add eu1 drain --reason test --for 5m"), ""),
    ];
    let file = [try_it(format!("$EDITOR {}", stage.config.display()), "saved is loaded")];
    let mut text = heading(palette, "4", "Your turn: what follows is shown here; Ctrl-C ends it");
    for part in [&gateways[..], &server, &file] {
        let _ = write!(text, "\n{}", table(palette, 2, &[], part));
    }
    text.push('\n');
    text
}

/// The last line.
pub(super) fn closing(palette: Palette, once: bool) -> String {
    if once { palette.paint(Tone::Good, "All of it happened as announced.") } else { "Ended.".to_owned() }
}
