//! `fairway explain`: why this answer, of a running server or of files alone.
//!
//! Both come as the same body and are rendered by the same function.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, anyhow, bail};
use fairway_model::{ClusterName, Fault, Verdict};

use super::{
    args::ExplainArgs,
    ask,
    output::{Cell, Out, Palette, Tone, table},
    variable, wait,
};
use crate::{
    api::{
        client::ExplainQuery,
        explain_wire::{AddressHealth, Explanation, MemberChoice, PoolChoice, Record, Step},
    },
    config::Source,
    control::{self, Environment},
};

/// Explains and prints.
pub(super) fn explain(out: Out, args: ExplainArgs) -> anyhow::Result<ExitCode> {
    let explanation = match args.config.clone() {
        Some(files) => of_files(&args, files)?,
        None => of_server(&args)?,
    };
    if args.json {
        out.line(&serde_json::to_string_pretty(&explanation).context("the explanation has no JSON form")?)?;
    } else {
        out.print(&render(out.palette, &explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn of_server(args: &ExplainArgs) -> anyhow::Result<Explanation> {
    let client = ask::asked(&args.server)?;
    let query = ExplainQuery {
        name: args.name.to_string(),
        rtype: Some(args.rtype.to_string()),
        client: args.client.map(|network| network.to_string()),
    };
    wait(async { Ok(client.explain(&query).await?) })
}

/// Explains from files alone: every target is taken to be up, but for those of clusters that are played down.
fn of_files(args: &ExplainArgs, files: PathBuf) -> anyhow::Result<Explanation> {
    let source = Source::Path(files);
    let environment: Environment = Arc::new(variable);
    let verdict = |cluster: &ClusterName| if args.down.contains(cluster) { Verdict::Down } else { Verdict::Up };
    let faulty = |faults: Vec<Fault>| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
        anyhow!("the configuration is faulty:{}", faults.concat())
    };
    let view = control::of_files(&source, &environment, verdict).map_err(faulty)?.view;
    let slots = view.snapshot.slots();
    let known: BTreeSet<&str> = slots.iter().map(|slot| slot.cluster.as_str()).collect();
    if let Some(unknown) = args.down.iter().find(|cluster| !known.contains(cluster.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        bail!("--down {unknown}: no pool has such a member; there are {}", known.join(", "));
    }
    let explained = fairway_zones::explain(&view, &args.name, args.rtype, args.client);
    Ok(Explanation::new(&explained, false, &|_| None))
}

/// The whole explanation, from the question to the answer.
fn render(palette: Palette, explanation: &Explanation) -> String {
    let Explanation { name, rtype, client, .. } = explanation;
    let client = client.as_ref().map_or_else(|| "a client that names no network".to_owned(), |c| format!("client {c}"));
    let mut text = format!("{} for {client}\n", palette.paint(Tone::Strong, &format!("{name} {rtype}")));
    if explanation.health == "assumed" {
        let note = "health is assumed, not measured: files alone were read";
        let _ = writeln!(text, "{}", palette.paint(Tone::Warn, note));
    }
    for step in &explanation.steps {
        text += &step_text(palette, step);
    }
    text += &answer_text(palette, explanation);
    text
}

fn step_text(palette: Palette, step: &Step) -> String {
    let zone = step.zone.as_ref().map_or_else(|| "no zone of this server".to_owned(), |zone| format!("zone {zone}"));
    let through = step.through.as_deref().unwrap_or("");
    let node = match step.node.as_str() {
        "static" => "records of the zone".to_owned(),
        "steered" => "a steered name".to_owned(),
        "emptyNonTerminal" => "nothing itself, but names below it (RFC 8020)".to_owned(),
        "wildcard" => format!("nothing itself; wildcard {through} stands for it (RFC 4592)"),
        "delegation" => format!("delegated to other servers at {through}"),
        "dname" => format!("below the DNAME at {through} (RFC 6672)"),
        "nothing" => "no such name".to_owned(),
        "outside" => "outside of every zone".to_owned(),
        other => other.to_owned(),
    };
    let mut text = format!("\n{}  {zone}: {node}\n", palette.paint(Tone::Strong, &step.name));
    if let Some(pool) = &step.pool {
        text += &pool_text(palette, pool);
    }
    text
}

fn pool_text(palette: Palette, pool: &PoolChoice) -> String {
    let depends_on = match pool.depends_on.as_str() {
        "everyone" if pool.place.is_some() => "all clients of a place get the same".to_owned(),
        "everyone" => "every client gets the same".to_owned(),
        "draw" => "each query draws".to_owned(),
        client => format!("the choice is that of {client}"),
    };
    let tiers: Vec<String> = pool.tiers.iter().map(u8::to_string).collect();
    let tiers = if tiers.is_empty() { String::new() } else { format!("; tier {} looked at", tiers.join(", ")) };
    let mut text = format!("  pool {}, {}: {}{tiers}; {depends_on}\n", pool.name, pool.policy, pool.basis_text);
    if let Some(place) = &pool.place {
        let _ = writeln!(text, "  place: {place}");
    }
    let rows: Vec<Vec<Cell>> = pool.members.iter().map(member_row).collect();
    text += &table(palette, 4, &[], &rows);
    match pool.gives.as_str() {
        "fallback" => text += "  the pool's fallback is answered\n",
        "refuse" => text += "  SERVFAIL is answered, so that resolvers ask another server\n",
        _ => {}
    }
    text
}

fn member_row(member: &MemberChoice) -> Vec<Cell> {
    let (tone, side) = if member.is_in { (Tone::Good, "in") } else { (Tone::Quiet, "out") };
    let weight = if member.standby { "standby".to_owned() } else { format!("weight {}", member.weight) };
    let addresses: Vec<String> = member.addresses.iter().map(address_text).collect();
    vec![
        Cell::new(tone, side),
        member.cluster.as_str().into(),
        weight.into(),
        format!("tier {}", member.tier).into(),
        Cell::new(tone, member.reason.as_str()),
        Cell::new(Tone::Quiet, addresses.join(", ")),
    ]
}

fn address_text(address: &AddressHealth) -> String {
    let AddressHealth { address, verdict, forced, cause, .. } = address;
    let cause = cause.as_ref().filter(|_| verdict == "down").map(|c| format!(": {c}")).unwrap_or_default();
    let forced = forced.as_ref().map(|f| format!(", forced {f}")).unwrap_or_default();
    format!("{address} {verdict}{cause}{forced}")
}

fn answer_text(palette: Palette, explanation: &Explanation) -> String {
    let aa = if explanation.authoritative { "authoritative" } else { "not authoritative" };
    let tone = if explanation.rcode == "NOERROR" { Tone::Good } else { Tone::Warn };
    let mut text =
        format!("\n{}  {}, {aa}\n", palette.paint(Tone::Strong, "answer"), palette.paint(tone, &explanation.rcode));
    let sections =
        [("", &explanation.answer), ("authority", &explanation.authority), ("additional", &explanation.additional)];
    for (section, records) in sections {
        let rows: Vec<Vec<Cell>> = records.iter().map(|record| record_row(section, record)).collect();
        text += &table(palette, 2, &[], &rows);
    }
    let _ = writeln!(text, "  TTL {}", explanation.ttl_reason);
    match explanation.scope {
        Some(0) => text += "  the answer is the same for every client (ECS scope 0)\n",
        Some(bits) => {
            let _ = writeln!(text, "  the answer is that of the client's /{bits} (ECS scope {bits})");
        }
        None => {}
    }
    text
}

fn record_row(section: &str, record: &Record) -> Vec<Cell> {
    let mut row = vec![
        Cell::from(record.name.as_str()),
        record.ttl.to_string().into(),
        record.rtype.as_str().into(),
        record.data.as_str().into(),
    ];
    if !section.is_empty() {
        row.push(Cell::new(Tone::Quiet, format!("({section})")));
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(cluster: &str, is_in: bool, reason: &str, address: AddressHealth) -> MemberChoice {
        MemberChoice {
            cluster: cluster.into(),
            weight: 60,
            tier: 1,
            is_in,
            reason: reason.into(),
            addresses: vec![address],
            ..MemberChoice::default()
        }
    }

    fn address(address: &str, verdict: &str) -> AddressHealth {
        AddressHealth { address: address.into(), verdict: verdict.into(), ..AddressHealth::default() }
    }

    fn explanation() -> Explanation {
        let down = AddressHealth { cause: Some("connection refused".into()), ..address("192.0.2.1", "down") };
        let drained = AddressHealth { forced: Some("drain".into()), ..address("192.0.2.3", "up") };
        let pool = PoolChoice {
            name: "shop".into(),
            policy: "weighted".into(),
            basis_text: "live members".into(),
            gives: "members".into(),
            depends_on: "client 203.0.113.0/24".into(),
            tiers: vec![1],
            members: vec![
                member("eu1", false, "down", down),
                member("us1", true, "chosen", address("192.0.2.2", "up")),
                member("ap1", false, "drained", drained),
            ],
            ..PoolChoice::default()
        };
        let name = "shop.gslb.example.";
        Explanation {
            name: name.into(),
            rtype: "A".into(),
            client: Some("203.0.113.0/24".into()),
            health: "measured".into(),
            steps: vec![Step {
                name: name.into(),
                zone: Some("gslb.example.".into()),
                node: "steered".into(),
                pool: Some(pool),
                ..Step::default()
            }],
            rcode: "NOERROR".into(),
            authoritative: true,
            answer: vec![Record { name: name.into(), rtype: "A".into(), ttl: 30, data: "192.0.2.2".into() }],
            scope: Some(24),
            ttl_reason: "30 s: of pool shop".into(),
            ..Explanation::default()
        }
    }

    #[test]
    fn an_explanation_goes_from_the_question_to_the_answer() {
        let expected = "\
shop.gslb.example. A for client 203.0.113.0/24

shop.gslb.example.  zone gslb.example.: a steered name
  pool shop, weighted: live members; tier 1 looked at; the choice is that of client 203.0.113.0/24
    out  eu1  weight 60  tier 1  down     192.0.2.1 down: connection refused
    in   us1  weight 60  tier 1  chosen   192.0.2.2 up
    out  ap1  weight 60  tier 1  drained  192.0.2.3 up, forced drain

answer  NOERROR, authoritative
  shop.gslb.example.  30  A  192.0.2.2
  TTL 30 s: of pool shop
  the answer is that of the client's /24 (ECS scope 24)
";
        assert_eq!(render(Palette::PLAIN, &explanation()), expected);
    }

    #[test]
    fn assumed_health_is_said_at_the_top() {
        let assumed = Explanation { health: "assumed".into(), ..explanation() };
        assert!(render(Palette::PLAIN, &assumed).lines().nth(1).unwrap().contains("assumed"));
    }
}
