//! `fairway publish status`, `plan`, `apply` and `take`; `flags` is next door.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use fairway_model::Name;

use super::{
    ask,
    output::{Cell, Out, Tone, table},
    publish_flags::{self, FlagsArgs},
    server_args::ServerArgs,
    values, wait,
};
use fairway_api_types::{
    client::Client,
    publishing_wire::{PlannedSet, PublishPlan, PublisherState, TakeOrder, TakeReport},
};

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
    /// Take record sets over from another owner, an ExternalDNS for example: announce it, finish it later.
    ///
    /// Announcing writes into the registry who takes over from whom: from then on the other owner leaves the record sets alone, and so does
    /// Fairway. Finishing makes them Fairway's; the next sync makes them what is wanted. Only registry records are written, so that no
    /// name is ever without its records. Aborting gives back what was announced.
    #[command(after_long_help = "\
Examples:
  fairway publish take bind --from cluster-east --dry-run
  fairway publish take bind --from cluster-east --reason \"east leaves\"
  fairway publish take bind --from cluster-east --step finish
  fairway publish take bind --from cluster-east --step abort --name www.example.com")]
    Take(TakeArgs),
    /// Print how an external-dns is started that carries records on to a provider which only it speaks.
    ///
    /// It reads DNSEndpoint objects, or, with --webhook, is a provider that Fairway publishes to. What is secret is no argument: it comes as
    /// environment variables.
    #[command(after_long_help = "\
Examples:
  fairway publish flags route53 --provider aws --set aws-zone-type=public --zone example.com
  fairway publish flags shop/route53 --kubernetes
  fairway publish flags shop/route53 --webhook --zone example.com")]
    Flags(FlagsArgs),
}

/// What `publish take` takes.
#[derive(Debug, Args)]
pub(super) struct TakeArgs {
    /// The provider, by its name in the configuration, or PROJECT/NAME of a declared record of where to. Default: the only one.
    #[arg(value_name = "PROVIDER")]
    provider: Option<String>,

    /// Whose they are: the id of the owner in the registry.
    #[arg(long, value_name = "OWNER")]
    from: String,

    /// What to do: announce, finish or abort.
    #[arg(long, value_name = "STEP", default_value = "announce", value_parser = ["announce", "finish", "abort"])]
    step: String,

    /// A name to take over; may be given several times. Default: all of that owner that are wanted here.
    #[arg(long = "name", value_name = "NAME", value_parser = values::name)]
    names: Vec<Name>,

    /// Why, for the audit log.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Finish only what was announced so long ago: longer than the other owner takes from reading to writing.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = values::duration)]
    after: Duration,

    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,

    /// Which running server to ask.
    #[command(flatten)]
    server: ServerArgs,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
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
    /// The provider, by its name in the configuration, or PROJECT/NAME of a declared record of where to. Default: the only one.
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
        PublishCommand::Take(args) => take(out, &args),
        PublishCommand::Flags(args) => publish_flags::print(out, &args),
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
        out.line("nothing is published; the section publish of the configuration says where to, or a declared dns-update-record")?;
    }
    for provider in &state.providers {
        out.print(&provider_text(out, provider))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn provider_text(out: Out, provider: &PublisherState) -> String {
    let tone = match provider.status.as_str() {
        "ok" => Tone::Good,
        "failing" => Tone::Bad,
        _ => Tone::Warn,
    };
    let status = out.palette.paint(tone, &provider.status);
    let since = provider.behind_since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
    let next = provider.next_sync_at.as_ref().map_or_else(String::new, |next| format!(", next look {next}"));
    let (name, owned, foreign) = (&provider.name, provider.owned, provider.foreign);
    let mut text = format!("{name}: {status}{since}, {owned} record sets of ours, {foreign} of others{next}\n");
    if let Some(error) = &provider.error {
        text += &format!("  {}\n", out.palette.paint(Tone::Warn, error));
    }
    let unpublished = provider.records.iter().filter(|record| record.status != "published");
    let rows: Vec<_> = unpublished
        .map(|record| {
            let status = Cell::new(Tone::Warn, record.status.as_str());
            let since = record.since.as_deref().unwrap_or_default();
            let [name, rtype, reason] = [&record.name, &record.rtype, &record.reason].map(|text| text.as_str().into());
            vec![name, rtype, status, since.into(), reason]
        })
        .collect();
    if !rows.is_empty() {
        text += &table(out.palette, 2, &["name", "type", "is", "since", "reason"], &rows);
    }
    text
}

fn plan(out: Out, args: &PlanArgs, carries_out: bool) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let plan = wait(async {
        let provider = provider(&client, args.provider.as_ref()).await?;
        Ok(match carries_out {
            true => client.publish_apply(&provider, args.deletions).await?,
            false => client.publish_plan(&provider, args.deletions).await?,
        })
    })?;
    if args.json {
        out.line(&serde_json::to_string_pretty(&plan).context("the plan has no JSON form")?)?;
    } else {
        out.print(&plan_text(out, &plan))?;
    }
    let is_well = plan.error.is_none() && plan.refused.is_empty() && plan.deletions_refused.is_none();
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The provider that is meant: the only one, if none is named.
async fn provider(client: &Client, named: Option<&String>) -> anyhow::Result<String> {
    if let Some(provider) = named {
        return Ok(provider.clone());
    }
    match &client.publishing().await?.providers[..] {
        [one] => Ok(one.name.clone()),
        [] => bail!(
            "nothing is published; the section publish of the configuration says where to, or a declared dns-update-record"
        ),
        several => bail!("there are {} providers; name one of them", several.len()),
    }
}

fn take(out: Out, args: &TakeArgs) -> anyhow::Result<ExitCode> {
    let client = ask::asked(&args.server)?;
    let order = TakeOrder {
        from: args.from.clone(),
        step: args.step.clone(),
        names: args.names.iter().map(ToString::to_string).collect(),
        reason: args.reason.clone(),
        after_secs: args.after.as_secs(),
        dry_run: args.dry_run,
    };
    let report = wait(async {
        let provider = provider(&client, args.provider.as_ref()).await?;
        Ok(client.take(&provider, &order).await?)
    })?;
    if args.json {
        out.line(&serde_json::to_string_pretty(&report).context("the report has no JSON form")?)?;
    } else {
        out.print(&take_text(out, &report, &order))?;
    }
    let is_refused = report.records.iter().any(|record| record.status == "refused");
    Ok(if report.error.is_some() || is_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn take_text(out: Out, report: &TakeReport, order: &TakeOrder) -> String {
    let rows = report.records.iter().map(|record| {
        let tone = if matches!(&*record.status, "announced" | "taken" | "returned") { Tone::Good } else { Tone::Warn };
        let status = Cell::new(tone, record.status.as_str());
        vec![record.name.as_str().into(), record.rtype.as_str().into(), status, record.reason.as_str().into()]
    });
    let rows: Vec<_> = rows.collect();
    let mut text =
        if rows.is_empty() { String::new() } else { table(out.palette, 0, &["name", "type", "is", "reason"], &rows) };
    if let Some(error) = &report.error {
        text += &format!("{}\n", out.palette.paint(Tone::Warn, &format!("! {error}")));
    }
    let done = report.records.iter().filter(|record| record.status != "left").count();
    let (provider, step, from) = (&report.provider, &order.step, &order.from);
    let verb = if report.dry_run { "to do" } else { "done" };
    text += &format!(
        "{provider}, {step} from {from}, {verb}: {done} record sets, {} left alone\n",
        report.records.len() - done
    );
    if !report.dry_run && order.step == "announce" && done > 0 {
        text += &format!("finish it with: fairway publish take {provider} --from {from} --step finish\n");
    }
    text
}

fn plan_text(out: Out, plan: &PublishPlan) -> String {
    let mut text = String::new();
    let line = |mark: &str, tone, set: &PlannedSet| {
        let PlannedSet { name, rtype, ttl, records, set_identifier, properties } = set;
        let fields = properties.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>();
        let which = if set_identifier.is_empty() { fields } else { format!(" ({set_identifier}{fields})") };
        format!("{}\n", out.palette.paint(tone, &format!("{mark} {name} {ttl} {rtype} {}{which}", records.join(", "))))
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
            ..PlannedSet::default()
        };
        let plan = PublishPlan {
            provider: "bind".to_owned(),
            update: vec![fairway_api_types::publishing_wire::PlannedUpdate { from: set(1), to: set(2) }],
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
