//! `fairway explain`: the reasons for the answer to a name, from a running server or from files.
//!
//! Both sources give the same body, which is rendered here.

use std::{collections::BTreeSet, fmt::Write as _, path::Path};

use anyhow::bail;

use super::{
    args::ExplainArgs,
    client::client,
    offline,
    output::{Cell, Out, Palette, Tone, first, table},
    overrides::pin_parts,
};
use fairway_api::{TargetNote, explanation, show_pins, show_weights};
use fairway_api_types::{
    client::ExplainQuery,
    explain_wire::{AddressHealth, ClientLocation, Explanation, MemberChoice, PoolChoice, Record, Step},
    history_wire::PastState,
};
use fairway_config::Source;
use fairway_model::Demand;

/// Number of clusters of a group that are listed by name.
const GROUP_MAX: usize = 8;
/// Width in characters above which a line of several parts is broken. A single part may be wider.
const WIDTH: usize = 132;

/// Explains and prints.
pub(super) async fn explain(out: Out, args: ExplainArgs) -> anyhow::Result<()> {
    let explanation = match &args.config {
        Some(files) => explain_files(&args, files)?,
        None => {
            let query = ExplainQuery {
                name: args.name.to_string(),
                rtype: Some(args.rtype.to_string()),
                client: args.client.map(|network| network.to_string()),
                at: args.at.map(|at| format!("{at:.9}")),
            };
            client(&args.server)?.explain(&query).await?
        }
    };
    out.show(args.json, &explanation, |palette| render(palette, &explanation))
}

/// Explains from files. Every target counts as up, except those of clusters that `--down` names.
fn explain_files(args: &ExplainArgs, files: &Path) -> anyhow::Result<Explanation> {
    let offline = offline(&Source::Path(files.to_owned()), &args.down)?;
    let slots = offline.view.snapshot.slots();
    let known: BTreeSet<&str> = slots.iter().map(|slot| slot.cluster.as_str()).collect();
    if let Some(unknown) = args.down.iter().find(|cluster| !known.contains(cluster.as_str())) {
        let known: Vec<&str> = known.into_iter().collect();
        bail!("--down {unknown}: not a member of any pool; the members are {}", known.join(", "));
    }
    let explained = fairway_zones::explain(&offline.view, &args.name, args.rtype, args.client);
    let mut explanation = explanation(&explained, false, &|_, _, _| TargetNote::default());
    show_pins(&mut explanation, |pool| offline.overrides.pinned(pool, &offline.configured));
    show_weights(&mut explanation, &offline.configured);
    Ok(explanation)
}

/// Formats an explanation, from the query to the answer.
fn render(palette: Palette, explanation: &Explanation) -> String {
    let Explanation { name, rtype, client, .. } = explanation;
    let client = client.as_ref().map_or_else(|| "a client without ECS".to_owned(), |client| format!("client {client}"));
    let mut text = format!("{} for {client}\n", palette.paint(Tone::Strong, &format!("{name} {rtype}")));
    if explanation.health == "assumed" {
        let note = "health is assumed, not measured: read from files";
        let _ = writeln!(text, "{}", palette.paint(Tone::Warn, note));
    }
    if let Some(PastState { time, since, note, .. }) = &explanation.at {
        let _ = writeln!(text, "at {time}, by the state served since {since}");
        if let Some(note) = note {
            let _ = writeln!(text, "{}", palette.paint(Tone::Warn, note));
        }
    }
    for step in &explanation.steps {
        text += &step_text(palette, step);
    }
    text += &answer_text(palette, explanation);
    text
}

fn step_text(palette: Palette, step: &Step) -> String {
    let zone = step.zone.as_ref().map_or_else(|| "no zone".to_owned(), |zone| format!("zone {zone}"));
    let through = step.through.as_deref().unwrap_or("");
    let node = match step.node.as_str() {
        "static" => "static records".to_owned(),
        "steered" => "steered name".to_owned(),
        "emptyNonTerminal" => "empty non-terminal: no records, but names below it (RFC 8020)".to_owned(),
        "wildcard" => format!("covered by wildcard {through} (RFC 4592)"),
        "delegation" => format!("delegated to other servers at {through}"),
        "dname" => format!("below the DNAME at {through} (RFC 6672)"),
        "nothing" => "no such name".to_owned(),
        "outside" => "outside all zones of this server".to_owned(),
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
        "everyone" if pool.location.classes > 1 => "same answer for all clients of the location class".to_owned(),
        "everyone" => "same answer for all clients".to_owned(),
        "draw" => "drawn per query".to_owned(),
        client => format!("chosen for {client}"),
    };
    let tiers: Vec<String> = pool.tiers.iter().map(u8::to_string).collect();
    let tiers = if tiers.is_empty() { String::new() } else { format!("tier {} considered", tiers.join(", ")) };
    let head = format!("pool {}, {}: {}", pool.name, pool.policy, pool.basis_text);
    let mut text = wrapped(2, "; ", [head, tiers, depends_on]);
    if let Some(pin) = &pool.pinned {
        text += &wrapped(4, "; ", pin_parts(pin));
    }
    if pool.policy_steps.len() > 2 {
        text += &wrapped(4, "; ", pool.policy_steps.iter().cloned());
    }
    if pool.location.classes > 1 {
        text += &location_text(&pool.location);
    }
    if let Some(source) = &pool.location_source {
        let _ = writeln!(text, "      source: {source}");
    }
    if pool.groups.len() > 1 {
        let groups = pool.groups.iter().map(|group| first(GROUP_MAX, " ", group)).enumerate();
        text += &wrapped(4, " | ", groups.map(|(at, group)| if at == 0 { format!("order {group}") } else { group }));
    }
    if let Some(assignment) = &pool.assignment_text {
        let _ = writeln!(text, "    {assignment}");
    }
    if let Some(cluster) = pool.slot_cluster.as_ref().filter(|_| pool.assignment.as_deref() == Some("nearest")) {
        let _ = writeln!(text, "    load control assigns the client's slot to {cluster}, which cannot be answered");
    }
    if let Some(moving) = pool.moving {
        text += &wrapped(4, "; ", demand_parts(pool, moving));
    }
    text += &members_text(palette, pool);
    match pool.result.as_str() {
        "fallback" => text += "  the answer is the pool's fallback\n",
        "refuse" => text += "  the answer is SERVFAIL, so that resolvers ask another server\n",
        _ => {}
    }
    text
}

/// Says how load control divides the demand of the client's location class, and why not in the best way.
fn demand_parts(pool: &PoolChoice, moving: u64) -> impl Iterator<Item = String> {
    let demand: u64 = pool.members.iter().filter_map(|member| member.demand).sum();
    let why = match pool.obstacle.as_deref() {
        None => "divided as is best".to_owned(),
        Some("deadBand") => "not divided as is best: that would gain too little to change answers".to_owned(),
        Some("rate") => "not divided as is best yet: only a part may move per TTL".to_owned(),
        Some("room") => "not divided as is best yet: the better clusters have no room for it".to_owned(),
        Some(other) => format!("not divided as is best: {other}"),
    };
    let moves = (moving > 0).then(|| format!("{moving} of it moves now"));
    std::iter::once(format!("demand of the location class {demand}")).chain(moves).chain([why])
}

fn location_text(location: &ClientLocation) -> String {
    let ClientLocation { network, class, classes, block, scope, scope_reason } = location;
    let block = block.as_deref().unwrap_or("all addresses");
    let head = format!("location class {class} of {classes} for {network}, shared by {block}");
    wrapped(4, "; ", [head, format!("ECS scope {scope}: {scope_reason}")])
}

/// Formats one line per member. If a line with the addresses would be too wide, or if the pool uses load, both go on a second line.
fn members_text(palette: Palette, pool: &PoolChoice) -> String {
    let rows = |with_addresses: bool| -> Vec<Vec<Cell>> {
        pool.members.iter().map(|member| member_row(member, pool.groups.len() > 1, with_addresses)).collect()
    };
    let text = table(Palette::PLAIN, 4, &[], rows(true));
    if text.lines().all(|line| line.chars().count() <= WIDTH) && pool.assignment.is_none() {
        return table(palette, 4, &[], rows(true));
    }
    let lines = table(palette, 4, &[], rows(false));
    let details = |member: &MemberChoice| {
        let slots = member.slots.map(|slots| format!("{slots} of {} slots", Demand::SLOTS));
        let demand =
            member.demand.zip(member.best_demand).map(|(demand, best)| format!("demand {demand}, best {best}"));
        let parts = slots.into_iter().chain(demand).chain(member.addresses.iter().map(address_text));
        wrapped(9, "; ", parts)
    };
    let members = lines.lines().zip(&pool.members);
    members
        .map(|(line, member)| format!("{line}\n{}\n", palette.paint(Tone::Quiet, details(member).trim_end())))
        .collect()
}

fn member_row(member: &MemberChoice, with_group: bool, with_addresses: bool) -> Vec<Cell> {
    let (tone, side) = if member.is_in { (Tone::Good, "in") } else { (Tone::Quiet, "out") };
    let weight = match member.weight_factors.text() {
        _ if member.standby => "standby".to_owned(),
        Some(factors) => format!("weight {} ({factors})", member.weight),
        None => format!("weight {}", member.weight),
    };
    let mut row = vec![
        Cell::new(tone, side),
        member.cluster.as_str().into(),
        weight.into(),
        format!("tier {}", member.tier).into(),
    ];
    if with_group {
        row.push(member.group.map(|group| format!("group {}", group + 1)).unwrap_or_default().into());
    }
    row.push(Cell::new(tone, member.reason.as_str()));
    if with_addresses {
        let addresses: Vec<String> = member.addresses.iter().map(address_text).collect();
        row.push(Cell::new(Tone::Quiet, addresses.join(", ")));
    }
    row
}

/// Joins parts with a separator, and breaks the line where it would be wider than [`WIDTH`].
fn wrapped(indent: usize, separator: &str, parts: impl IntoIterator<Item = String>) -> String {
    let mut text = " ".repeat(indent);
    let mut width = indent;
    for (at, part) in parts.into_iter().filter(|part| !part.is_empty()).enumerate() {
        let length = part.chars().count();
        if at > 0 && width + separator.len() + length > WIDTH {
            let _ = write!(text, "{}\n{}", separator.trim_end(), " ".repeat(indent + 2));
            width = indent + 2;
        } else if at > 0 {
            text += separator;
            width += separator.len();
        }
        text += &part;
        width += length;
    }
    text + "\n"
}

fn address_text(address: &AddressHealth) -> String {
    let AddressHealth { address, status, override_action, not_allowed, probe, cause, .. } = address;
    if let Some(reason) = not_allowed {
        return format!("{address} not allowed: {reason}");
    }
    let failure = |cause: &String| match probe {
        Some(probe) => format!(": {}", probe.failure(cause)),
        None => format!(": {cause}"),
    };
    let cause = cause.as_ref().filter(|_| status == "down").map(failure).unwrap_or_default();
    let action = override_action.as_ref().map(|action| format!(", override {action}")).unwrap_or_default();
    format!("{address} {status}{cause}{action}")
}

fn answer_text(palette: Palette, explanation: &Explanation) -> String {
    let authority = if explanation.authoritative { "authoritative" } else { "not authoritative" };
    let tone = if explanation.rcode == "NOERROR" { Tone::Good } else { Tone::Warn };
    let (head, rcode) = (palette.paint(Tone::Strong, "answer"), palette.paint(tone, &explanation.rcode));
    let mut text = format!("\n{head}  {rcode}, {authority}\n");
    let sections =
        [("", &explanation.answer), ("authority", &explanation.authority), ("additional", &explanation.additional)];
    for (section, records) in sections {
        text += &table(palette, 2, &[], records.iter().map(|record| record_row(section, record)));
    }
    let _ = writeln!(text, "  TTL {}", explanation.ttl_reason);
    match explanation.scope {
        Some(0) => text += "  same answer for all clients (ECS scope 0)\n",
        Some(bits) => {
            let _ = writeln!(text, "  same answer for all clients of the /{bits} (ECS scope {bits})");
        }
        None => {}
    }
    let Explanation { snapshot, runtime_state, epoch, .. } = explanation;
    let epoch = epoch.map(|epoch| format!(", shares of epoch {epoch}")).unwrap_or_default();
    let _ = writeln!(text, "  from snapshot {snapshot}, runtime state {runtime_state}{epoch}");
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
    use fairway_api_types::kubernetes_wire::WeightFactors;

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

    fn address(address: &str, status: &str) -> AddressHealth {
        AddressHealth { address: address.into(), status: status.into(), ..AddressHealth::default() }
    }

    fn explanation() -> Explanation {
        let down = AddressHealth { cause: Some("connection refused".into()), ..address("192.0.2.1", "down") };
        let drained = AddressHealth { override_action: Some("drain".into()), ..address("192.0.2.3", "up") };
        let pool = PoolChoice {
            name: "shop".into(),
            policy: "weighted".into(),
            basis_text: "live members".into(),
            result: "members".into(),
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
            snapshot: "00000000000000a1".into(),
            runtime_state: "00000000000000b2".into(),
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
    fn explanation_shows_zone_pool_members_and_answer() {
        let expected = "\
shop.gslb.example. A for client 203.0.113.0/24

shop.gslb.example.  zone gslb.example.: steered name
  pool shop, weighted: live members; tier 1 considered; chosen for client 203.0.113.0/24
    out  eu1  weight 60  tier 1  down     192.0.2.1 down: connection refused
    in   us1  weight 60  tier 1  chosen   192.0.2.2 up
    out  ap1  weight 60  tier 1  drained  192.0.2.3 up, override drain

answer  NOERROR, authoritative
  shop.gslb.example.  30  A  192.0.2.2
  TTL 30 s: of pool shop
  same answer for all clients of the /24 (ECS scope 24)
  from snapshot 00000000000000a1, runtime state 00000000000000b2
";
        assert_eq!(render(Palette::PLAIN, &explanation()), expected);
    }

    /// A pool that ranks by location and uses load: the slot of the client belongs to us1, which is not the nearest cluster.
    fn overflowing() -> PoolChoice {
        let step = |text: &str| text.to_owned();
        let two_addresses = |first: &str| vec![address(first, "up"), address("2001:db8::1:2:3", "up")];
        let considered = |cluster: &str, group, is_in, reason: &str, slots| MemberChoice {
            group: Some(group),
            slots: Some(slots),
            demand: Some(4 * u64::from(slots)),
            best_demand: Some(512),
            addresses: two_addresses("192.0.2.1"),
            ..member(cluster, is_in, reason, address("", ""))
        };
        let not_considered = MemberChoice {
            group: Some(2),
            slots: Some(0),
            ..member("ap1", false, "an earlier member comes first", address("192.0.2.3", "up"))
        };
        PoolChoice {
            name: "shop".into(),
            policy: "geo, load, weighted".into(),
            policy_steps: ["tier: lower first", "geo: as the map prefers", "load: the cluster of the slot", "weighted"]
                .map(step)
                .into(),
            basis_text: "live members".into(),
            result: "members".into(),
            depends_on: "client 203.0.113.0/24".into(),
            tiers: vec![1],
            location: ClientLocation {
                network: "203.0.113.0/24".into(),
                block: Some("203.0.112.0/20".into()),
                class: 3,
                classes: 12,
                scope: 24,
                scope_reason: "clientPrefix is /24, location class by /20".into(),
            },
            groups: vec![vec!["eu1".into(), "eu2".into()], vec!["us1".into()], vec!["ap1".into()]],
            assignment: Some("slot".into()),
            assignment_text: Some("slot: load control assigns the client's slot to this cluster".into()),
            slot: Some(17),
            slot_cluster: Some("us1".into()),
            moving: Some(40),
            obstacle: Some("rate".into()),
            members: vec![
                considered("eu1", 0, false, "load control assigns this client to another cluster", 102),
                considered("us1", 1, true, "chosen", 154),
                not_considered,
            ],
            ..PoolChoice::default()
        }
    }

    #[test]
    fn location_order_and_load_are_shown_if_the_pool_uses_them() {
        let expected =
            "  pool shop, geo, load, weighted: live members; tier 1 considered; chosen for client 203.0.113.0/24
    tier: lower first; geo: as the map prefers; load: the cluster of the slot; weighted
    location class 3 of 12 for 203.0.113.0/24, shared by 203.0.112.0/20; ECS scope 24: clientPrefix is /24, location class by /20
    order eu1 eu2 | us1 | ap1
    slot: load control assigns the client's slot to this cluster
    demand of the location class 1024; 40 of it moves now; not divided as is best yet: only a part may move per TTL
    out  eu1  weight 60  tier 1  group 1  load control assigns this client to another cluster
         102 of 256 slots; demand 408, best 512; 192.0.2.1 up; 2001:db8::1:2:3 up
    in   us1  weight 60  tier 1  group 2  chosen
         154 of 256 slots; demand 616, best 512; 192.0.2.1 up; 2001:db8::1:2:3 up
    out  ap1  weight 60  tier 1  group 3  an earlier member comes first
         0 of 256 slots; 192.0.2.3 up
";
        assert_eq!(pool_text(Palette::PLAIN, &overflowing()), expected);
    }

    #[test]
    fn line_of_many_parts_is_broken_at_the_width() {
        let many = |text: &str| vec![text.to_owned(); 40];
        let wide = PoolChoice {
            basis_text: "panic: too little of the weight is live, so health is ignored".into(),
            depends_on: "client 2001:db8:1234:5678::/56".into(),
            groups: vec![many("cluster"), many("other"), many("last")],
            members: vec![MemberChoice {
                addresses: vec![address("2001:db8:1234:5678:9abc:def0:1234:5678", "down"); 16],
                ..overflowing().members.remove(0)
            }],
            ..overflowing()
        };
        let text = pool_text(Palette::PLAIN, &wide);
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= WIDTH, "{widest}");
    }

    #[test]
    fn weight_of_a_split_is_shown_with_its_factors() {
        let of =
            WeightFactors { base: 60, object: Some("eu1: TrafficSplit shop/web".into()), ..WeightFactors::default() };
        let with = |weight_factors: WeightFactors, standby: bool| {
            let member = member("eu1", true, "chosen", address("192.0.2.2", "up"));
            let pool = PoolChoice {
                members: vec![MemberChoice { weight_factors, standby, ..member }],
                ..PoolChoice::default()
            };
            members_text(Palette::PLAIN, &pool).split("  tier").next().unwrap_or_default().trim_start().to_owned()
        };
        let split = "in  eu1  weight 60 (60 of eu1: TrafficSplit shop/web)";
        assert_eq!(with(of.clone(), false), split);
        assert_eq!(
            with(WeightFactors { base: 20, pods: Some(3), ..Default::default() }, false),
            "in  eu1  weight 60 (20 × 3 pods)"
        );
        assert_eq!(with(of, true), "in  eu1  standby");
    }

    #[test]
    fn assumed_health_is_noted_at_the_top() {
        let assumed = Explanation { health: "assumed".into(), ..explanation() };
        assert!(render(Palette::PLAIN, &assumed).lines().nth(1).unwrap().contains("assumed"));
    }
}
