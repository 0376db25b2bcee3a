//! `fairway contributions`: lists webhook contributions and their status, releases held ones, and evicts them.

use std::time::SystemTime;

use clap::{Args, Subcommand};
use fairway_model::Timestamp;

use super::{
    client::{ServerArgs, client},
    output::{Cell, Out, Palette, Tone, ago, count, table},
};
use fairway_api_types::contributions_wire::{ContributedMember, ContributionState, Eviction};

/// List webhook contributions of ExternalDNS and their status, confirm held withdrawals, or remove contributions.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway contributions
  fairway contributions --members
  fairway contributions confirm west --reason 'the cluster is gone'
  fairway contributions evict west --reason 'the cluster is gone'")]
pub(super) struct ContributionsArgs {
    /// An action instead of the list.
    #[command(subcommand)]
    command: Option<ContributionsCommand>,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,

    /// Also show the members of each contribution, with their weights and the source of each weight; at most 100 each.
    #[arg(long)]
    members: bool,

    /// Print as JSON, with the times when each contribution loses weight and expires.
    #[arg(long)]
    json: bool,
}

/// Actions on contributions.
#[derive(Debug, Subcommand)]
pub(super) enum ContributionsCommand {
    /// Confirm what an owner withdrew and is held: the answers then no longer have it.
    Confirm(OwnerArgs),
    /// Remove what an owner contributed. A client that still runs contributes it again: stop it first.
    Evict(OwnerArgs),
}

/// Arguments of `contributions confirm` and `contributions evict`.
#[derive(Debug, Args)]
pub(super) struct OwnerArgs {
    /// The owner, as `contributions` shows it.
    owner: String,

    /// Only contributions over this base path: / or /owners/NAME.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,

    /// Only contributions with this set identifier.
    #[arg(long, value_name = "SET")]
    set: Option<String>,

    /// Reason for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,
}

/// Lists contributions, or evicts some.
pub(super) async fn contributions(out: Out, args: ContributionsArgs) -> anyhow::Result<()> {
    match args.command {
        Some(ContributionsCommand::Confirm(args)) => return confirm(out, args).await,
        Some(ContributionsCommand::Evict(args)) => return evict(out, args).await,
        None => {}
    }
    let found = client(&args.server)?.contributions().await?;
    out.show(args.json, &found, |palette| {
        if found.items.is_empty() {
            return "no webhook contributions\n".to_owned();
        }
        let members = if args.members { member_table(palette, &found.items) } else { String::new() };
        contribution_table(palette, &found.items, &Timestamp::from(SystemTime::now()).to_string()) + &members
    })
}

impl OwnerArgs {
    /// Returns the server, and the contributions that are meant.
    fn split(self) -> (ServerArgs, Eviction) {
        let Self { owner, path, set, reason, server } = self;
        (server, Eviction { owner, path, set, reason })
    }
}

async fn confirm(out: Out, args: OwnerArgs) -> anyhow::Result<()> {
    let (server, held) = args.split();
    let confirmed = client(&server)?.confirm(&held).await?;
    let endpoints = count(confirmed.endpoints as u64, "endpoint", "endpoints");
    Ok(out.line(&format!("removed {endpoints} of {} that were held", held.owner))?)
}

async fn evict(out: Out, args: OwnerArgs) -> anyhow::Result<()> {
    let (server, eviction) = args.split();
    let evicted = client(&server)?.evict(&eviction).await?;
    let endpoints = count(evicted.endpoints as u64, "endpoint", "endpoints");
    Ok(out
        .line(&format!("removed {endpoints} of {}; a client that still runs contributes them again", eviction.owner))?)
}

/// Formats one row per contribution, and the warnings below the table.
fn contribution_table(palette: Palette, items: &[ContributionState], now: &str) -> String {
    let row = |item: &ContributionState| {
        let lease = format!("{:.0} %", item.lease_weight * 100.0);
        let tone = if item.lease_weight < 1.0 { Tone::Warn } else { Tone::Plain };
        vec![
            Cell::from(item.owner.as_str()),
            item.path.as_str().into(),
            item.set.as_str().into(),
            item.names.to_string().into(),
            item.endpoints.to_string().into(),
            item.since.as_str().into(),
            item.last_seen.as_ref().map_or_else(|| "-".to_owned(), |seen| ago(seen, now)).into(),
            Cell::new(tone, lease.as_str()),
        ]
    };
    let head = ["owner", "path", "set", "names", "endpoints", "since", "last seen", "lease"];
    let mut text = table(palette, 0, &head, items.iter().map(row));
    for item in items {
        for condition in item.conditions.iter().filter(|condition| condition.status == "True") {
            text += &palette.line(Tone::Warn, &format!("{} {}: {}", item.owner, item.set, condition.message));
        }
        for warning in &item.warnings {
            let line = format!("{} {}: {}: {}", item.owner, item.set, warning.name, warning.message);
            text += &palette.line(Tone::Warn, &line);
        }
    }
    text
}

/// Formats one row per member: the weight in use, and its source.
fn member_table(palette: Palette, items: &[ContributionState]) -> String {
    let row = |item: &ContributionState, member: &ContributedMember| {
        let declared = match member.declared {
            Some(weight) => format!("{weight}, webhook-gslb-weight"),
            None => "1, default".to_owned(),
        };
        let lease = if item.lease_weight < 1.0 {
            format!(", reduced to {:.0} % by its lease", item.lease_weight * 100.0)
        } else {
            String::new()
        };
        let owner = format!("{} {}", item.owner, item.set);
        [&*member.name, &member.cluster, &member.weight.to_string(), &format!("{declared}{lease}"), owner.trim_end()]
            .map(Cell::from)
            .to_vec()
    };
    let rows = items.iter().flat_map(|item| item.members.iter().map(move |member| row(item, member)));
    format!("\n{}", table(palette, 0, &["name", "cluster", "weight", "declared", "owner"], rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_api_types::contributions_wire::ContributionWarning;

    #[test]
    fn contribution_has_a_row_and_its_warnings_below() {
        let item = ContributionState {
            path: "/owners/east".to_owned(),
            owner: "east".to_owned(),
            names: 1,
            endpoints: 2,
            since: "1970-01-01T00:00:10Z".to_owned(),
            last_seen: Some("1970-01-01T00:01:00Z".to_owned()),
            lease_weight: 0.4,
            members: vec![ContributedMember {
                name: "a.example".to_owned(),
                cluster: "at+192.0.2.1".to_owned(),
                weight: 24,
                declared: Some(60),
            }],
            warnings: vec![ContributionWarning { name: "a.example".to_owned(), message: "odd".to_owned() }],
            ..ContributionState::default()
        };
        let text = member_table(Palette::PLAIN, std::slice::from_ref(&item));
        assert_eq!(
            text.lines().last().unwrap().trim_end(),
            "a.example  at+192.0.2.1  24      60, webhook-gslb-weight, reduced to 40 % by its lease  east",
            "{text}"
        );
        let text = contribution_table(Palette::PLAIN, &[item], "1970-01-01T00:01:05Z");
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("OWNER  PATH") && lines[1].contains("5 s ago") && lines[1].ends_with("40 %"),
            "{text}"
        );
        assert_eq!(lines[2], "east : a.example: odd");
    }
}
