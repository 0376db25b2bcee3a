//! `fairway publish status`, `plan` and `apply`.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::{
    ask,
    output::{Cell, Out, Tone, table},
    server_args::ServerArgs,
    wait,
};
use crate::api::publishing_wire::{PlannedSet, PublishPlan, PublisherState};

/// See and steer what is published to other DNS servers.
#[derive(Debug, Subcommand)]
pub(super) enum PublishCommand {
    /// Show how each provider stands, and what cannot be published there.
    Status(StatusArgs),
    /// Show what a sync would change at a provider now. Nothing is changed.
    Plan(PlanArgs),
    /// Sync a provider now, and wait for it.
    ///
    /// Deletions over the bounds of the provider are held back, unless --deletions says that as many are meant.
    #[command(after_long_help = "\
Examples:
  fairway publish plan bind
  fairway publish apply bind
  fairway publish apply bind --deletions 40")]
    Apply(PlanArgs),
}

/// What `publish status` takes.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Which running server to ask.
    #[command(flatten)]
    server: ServerArgs,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// What `publish plan` and `publish apply` take.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// The provider, by its name in the configuration. Default: the only one.
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,

    /// Record sets that may be deleted, whatever the bounds say.
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    deletions: usize,

    /// Which running server to ask.
    #[command(flatten)]
    server: ServerArgs,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs one of the commands.
pub(super) fn publish(out: Out, command: PublishCommand) -> anyhow::Result<ExitCode> {
    match command {
        PublishCommand::Status(args) => status(out, &args),
        PublishCommand::Plan(args) => plan(out, &args, false),
        PublishCommand::Apply(args) => plan(out, &args, true),
    }
}

fn status(out: Out, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let state = wait(async { Ok(client.publishing().await?) })?;
    if args.json {
        out.line(&serde_json::to_string_pretty(&state).context("the state has no JSON form")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if state.providers.is_empty() {
        out.line("nothing is published; the section publish of the configuration says where to")?;
    }
    for provider in &state.providers {
        out.print(&provider_text(out, provider))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn provider_text(out: Out, provider: &PublisherState) -> String {
    let tone = match provider.standing.as_str() {
        "ok" => Tone::Good,
        "failing" => Tone::Bad,
        _ => Tone::Warn,
    };
    let standing = out.palette.paint(tone, &provider.standing);
    let since = provider.behind_since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
    let (name, owned, foreign) = (&provider.name, provider.owned, provider.foreign);
    let mut text = format!("{name}: {standing}{since}, {owned} record sets of ours, {foreign} of others\n");
    if let Some(error) = &provider.error {
        text += &format!("  {}\n", out.palette.paint(Tone::Warn, error));
    }
    let unpublished = provider.records.iter().filter(|record| record.condition != "published");
    let rows: Vec<_> = unpublished
        .map(|record| {
            let condition = Cell::new(Tone::Warn, record.condition.as_str());
            vec![record.name.as_str().into(), record.rtype.as_str().into(), condition, record.reason.as_str().into()]
        })
        .collect();
    if !rows.is_empty() {
        text += &table(out.palette, 2, &["name", "type", "is", "reason"], &rows);
    }
    text
}

fn plan(out: Out, args: &PlanArgs, carries_out: bool) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let plan = wait(async {
        let provider = match &args.provider {
            Some(provider) => provider.clone(),
            None => match &client.publishing().await?.providers[..] {
                [one] => one.name.clone(),
                [] => bail!("nothing is published; the section publish of the configuration says where to"),
                several => bail!("there are {} providers; name one of them", several.len()),
            },
        };
        Ok(client.publish(&provider, args.deletions, carries_out).await?)
    })?;
    if args.json {
        out.line(&serde_json::to_string_pretty(&plan).context("the plan has no JSON form")?)?;
    } else {
        out.print(&plan_text(out, &plan))?;
    }
    let is_well = plan.error.is_none() && plan.refused.is_empty() && plan.deletions_refused.is_none();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan_text(out: Out, plan: &PublishPlan) -> String {
    let mut text = String::new();
    let line = |mark: &str, tone, set: &PlannedSet| {
        let PlannedSet { name, rtype, ttl, records } = set;
        format!("{}\n", out.palette.paint(tone, &format!("{mark} {name} {ttl} {rtype} {}", records.join(", "))))
    };
    plan.create.iter().for_each(|set| text += &line("+", Tone::Good, set));
    for update in &plan.update {
        text += &line("-", Tone::Bad, &update.from);
        text += &line("+", Tone::Good, &update.to);
    }
    plan.delete.iter().for_each(|set| text += &line("-", Tone::Bad, set));
    for refused in &plan.refused {
        let what = format!("! {} {}: {}", refused.name, refused.rtype, refused.reason);
        text += &format!("{}\n", out.palette.paint(Tone::Warn, &what));
    }
    for held in plan.deletions_refused.iter().chain(&plan.error) {
        text += &format!("{}\n", out.palette.paint(Tone::Warn, &format!("! {held}")));
    }
    let [create, update, delete] = [plan.create.len(), plan.update.len(), plan.delete.len()];
    let verb = if plan.changed.is_some() { "done" } else { "to do" };
    let (kept, foreign, registry, provider) = (plan.kept, plan.foreign, plan.registry, &plan.provider);
    text += &format!(
        "{provider}, {verb}: {create} created, {update} changed, {delete} deleted, {registry} of the registry; {kept} stay, {foreign} of others\n"
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::ColorWhen;

    #[test]
    fn a_plan_reads_like_a_difference() {
        let set = |last: u8| PlannedSet {
            name: "www.x.".to_owned(),
            rtype: "A".to_owned(),
            ttl: 30,
            records: vec![format!("192.0.2.{last}")],
        };
        let plan = PublishPlan {
            provider: "bind".to_owned(),
            update: vec![crate::api::publishing_wire::PlannedUpdate { from: set(1), to: set(2) }],
            foreign: 7,
            ..PublishPlan::default()
        };
        let text = plan_text(Out::new(ColorWhen::Never), &plan);
        assert_eq!(
            text,
            "- www.x. 30 A 192.0.2.1\n+ www.x. 30 A 192.0.2.2\n\
             bind, to do: 0 created, 1 changed, 0 deleted, 0 of the registry; 0 stay, 7 of others\n"
        );
    }
}
