//! `fairway contributions`: who brings what over the webhook.

use std::process::ExitCode;

use anyhow::Context;
use fairway_model::Timestamp;

use super::{
    ask,
    contributions_args::{ContributionsArgs, ContributionsCommand, EvictArgs},
    output::{Cell, Out, Palette, Tone, count, span, table},
    wait,
};
use fairway_api_types::contributions_wire::{ContributedMember, ContributionState, Eviction};

/// Shows them, or takes one out.
pub(super) fn contributions(out: Out, args: ContributionsArgs) -> anyhow::Result<ExitCode> {
    if let Some(ContributionsCommand::Evict(args)) = args.command {
        return evict(out, args);
    }
    let client = ask::asked(&args.server)?;
    let found = wait(async { Ok(client.contributions().await?) })?;
    if args.json {
        out.line(&serde_json::to_string_pretty(&found).context("the list has no JSON form")?)?;
    } else if found.items.is_empty() {
        out.line("nothing is brought over the webhook")?;
    } else {
        let mut text = listed(out.palette, &found.items, std::time::SystemTime::now().into());
        if args.members {
            text += &members(out.palette, &found.items);
        }
        out.print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn evict(out: Out, args: EvictArgs) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let EvictArgs { owner, path, set, reason, .. } = args;
    let eviction = Eviction { owner, path, set, reason };
    let evicted = wait(async { Ok(client.evict(&eviction).await?) })?;
    let endpoints = count(evicted.endpoints as u64, "endpoint", "endpoints");
    out.line(&format!("{endpoints} of {} are out; a writer that still runs brings them again", eviction.owner))?;
    Ok(ExitCode::SUCCESS)
}

/// A line a contribution, and below what of it is not heeded.
fn listed(palette: Palette, items: &[ContributionState], now: Timestamp) -> String {
    let row = |item: &ContributionState| {
        let left = format!("{:.0} %", item.lease_weight * 100.0);
        let tone = if item.lease_weight < 1.0 { Tone::Warn } else { Tone::Plain };
        vec![
            Cell::from(item.owner.as_str()),
            item.path.as_str().into(),
            item.set.as_str().into(),
            item.names.to_string().into(),
            item.endpoints.to_string().into(),
            item.since.as_str().into(),
            seen(item, now).into(),
            Cell::new(tone, left.as_str()),
        ]
    };
    let head = ["owner", "path", "set", "names", "endpoints", "since", "last seen", "left"];
    let mut text = table(palette, 0, &head, &items.iter().map(row).collect::<Vec<_>>());
    for item in items {
        for told in &item.warnings {
            let line = format!("{} {}: {}: {}", item.owner, item.set, told.name, told.message);
            text.push_str(&palette.paint(Tone::Warn, &line));
            text.push('\n');
        }
    }
    text
}

/// A line a member: the weight that counts, and what it is made of.
fn members(palette: Palette, items: &[ContributionState]) -> String {
    let row = |item: &ContributionState, member: &ContributedMember| {
        let said = member
            .declared
            .map_or_else(|| "1, nothing is said".to_owned(), |said| format!("{said}, webhook-gslb-weight"));
        let left = if item.lease_weight < 1.0 {
            format!(", of which {:.0} % is left", item.lease_weight * 100.0)
        } else {
            String::new()
        };
        let whose = format!("{} {}", item.owner, item.set);
        [&*member.name, &member.cluster, &member.weight.to_string(), &format!("{said}{left}"), whose.trim_end()]
            .map(Cell::from)
            .to_vec()
    };
    let rows: Vec<_> = items.iter().flat_map(|item| item.members.iter().map(move |member| row(item, member))).collect();
    format!("\n{}", table(palette, 0, &["name", "cluster", "weight", "from", "of"], &rows))
}

fn seen(item: &ContributionState, now: Timestamp) -> String {
    let seen = item.last_seen.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    seen.map_or_else(|| "-".to_owned(), |seen| format!("{} ago", span(now.secs().saturating_sub(seen.secs()))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_api_types::contributions_wire::ContributionWarning;

    #[test]
    fn a_contribution_has_a_line_and_what_is_not_heeded_stands_below() {
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
        let text = members(Palette::PLAIN, std::slice::from_ref(&item));
        assert_eq!(
            text.lines().nth(2).unwrap().trim_end(),
            "a.example  at+192.0.2.1  24      60, webhook-gslb-weight, of which 40 % is left  east",
            "{text}"
        );
        let text = listed(Palette::PLAIN, &[item], Timestamp::from_secs(65));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("OWNER  PATH") && lines[1].contains("5 s ago") && lines[1].ends_with("40 %"),
            "{text}"
        );
        assert_eq!(lines[2], "east : a.example: odd");
    }
}
