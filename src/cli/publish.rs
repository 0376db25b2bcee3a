//! `fairway publish status`, `plan`, `apply` and `take`. `publish_flags` has `flags`.

use std::{process::ExitCode, time::Duration};

use anyhow::bail;
use clap::{Args, Subcommand};
use fairway_model::Name;

use super::{
    client::{ServerArgs, client},
    output::{Cell, Out, Palette, Tone, table},
    publish_flags::{self, FlagsArgs},
    values,
};
use fairway_api_types::{
    client::Client,
    publishing_wire::{PlannedSet, PublishPlan, PublishedRecord, PublisherState, TakeOrder, TakeReport},
};

/// Show and control what is published to other DNS servers.
#[derive(Debug, Subcommand)]
pub(super) enum PublishCommand {
    /// Show the status of each provider, and the record sets that cannot be published there.
    Status {
        /// The server.
        #[command(flatten)]
        server: ServerArgs,

        /// Print as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a sync would change at a provider now. Changes nothing.
    #[command(after_long_help = "\
Exit status:
  0  a sync would be complete
  1  the plan has an error, refused names or deletions that are held back; or the command failed,
     and the reason is on standard error
  2  the command line is invalid")]
    Plan(PlanArgs),
    /// Sync a provider now, and wait for the result.
    ///
    /// Deletions beyond the limit of the provider are held back, unless --deletions allows that many.
    #[command(after_long_help = "\
Examples:
  fairway publish plan bind
  fairway publish apply bind --plan 5b0c37d91e24a6f8
  fairway publish apply bind --deletions 40

Exit status:
  0  the sync is complete
  1  the sync has an error, refused names or deletions that are held back; or the command failed,
     and the reason is on standard error
  2  the command line is invalid")]
    Apply(ApplyArgs),
    /// Take over record sets from another owner, for example an ExternalDNS instance, in two steps: announce, then finish.
    ///
    /// The first step notes the new owner in the registry. From then on neither the other owner nor Fairway changes the record sets.
    /// The second step makes Fairway their owner, and the next sync updates them. Only registry records are written, so that no name is
    /// ever without its records. `--step abort` undoes an announcement.
    #[command(after_long_help = "\
Examples:
  fairway publish take bind --from cluster-east --dry-run
  fairway publish take bind --from cluster-east --reason \"east leaves\"
  fairway publish take bind --from cluster-east --step finish
  fairway publish take bind --from cluster-east --step abort --name www.example.com

Exit status:
  0  the step is complete
  1  a record set was refused, or the step has an error; or the command failed, and the reason is
     on standard error
  2  the command line is invalid")]
    Take(TakeArgs),
    /// Print the command line of an external-dns process that forwards records to a provider which only ExternalDNS supports.
    ///
    /// That process reads DNSEndpoint objects, or with --webhook it is a webhook provider that Fairway publishes to. Secrets are
    /// not arguments: external-dns reads them from environment variables, which are listed on standard error.
    #[command(after_long_help = "\
Examples:
  fairway publish flags route53 --provider aws --set aws-zone-type=public --zone example.com
  fairway publish flags shop/route53 --kubernetes
  fairway publish flags shop/route53 --webhook --zone example.com")]
    Flags(FlagsArgs),
}

/// Arguments of `publish take`.
#[derive(Debug, Args)]
pub(super) struct TakeArgs {
    /// Name of the provider in the configuration, or PROJECT/NAME of a declared dns-update-record. Default: the only provider.
    provider: Option<String>,

    /// Id of the present owner in the registry.
    #[arg(long, value_name = "OWNER")]
    from: String,

    /// The step: announce, finish or abort.
    #[arg(long, value_name = "STEP", default_value = "announce", value_parser = ["announce", "finish", "abort"])]
    step: String,

    /// Name to take over; may be repeated. Default: all names of that owner that Fairway would publish.
    #[arg(long = "name", value_name = "NAME", value_parser = values::name)]
    names: Vec<Name>,

    /// Reason, for the audit log.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// Finish only what was announced at least this long ago. It must be longer than the other owner takes from reading to writing.
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = values::duration)]
    after: Duration,

    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `publish plan` and `publish apply`.
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    /// Name of the provider in the configuration, or PROJECT/NAME of a declared dns-update-record. Default: the only provider.
    provider: Option<String>,

    /// Number of record sets that may be deleted, regardless of the limit.
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    deletions: usize,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,

    /// Print as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `publish apply`.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    plan_args: PlanArgs,

    /// Id that `publish plan` printed: apply exactly that plan, or nothing if it is outdated.
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
}

/// Runs one of the commands.
pub(super) async fn publish(out: Out, command: PublishCommand) -> anyhow::Result<ExitCode> {
    match command {
        PublishCommand::Status { server, json } => {
            let state = client(&server)?.publishing().await?;
            out.show(json, &state, |palette| match &state.providers[..] {
                [] => format!("{NO_PROVIDER}\n"),
                providers => providers.iter().map(|provider| provider_text(palette, provider)).collect(),
            })?;
        }
        PublishCommand::Plan(args) => {
            let (client, provider) = client_and_provider(&args.server, args.provider).await?;
            let plan = client.publish_plan(&provider, args.deletions).await?;
            return show_plan(out, args.json, &plan);
        }
        PublishCommand::Apply(ApplyArgs { plan_args: args, plan }) => {
            let (client, provider) = client_and_provider(&args.server, args.provider).await?;
            let plan = client.publish_apply(&provider, args.deletions, plan.as_deref()).await?;
            return show_plan(out, args.json, &plan);
        }
        PublishCommand::Take(args) => return take(out, args).await,
        PublishCommand::Flags(args) => publish_flags::print(out, args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

fn provider_text(palette: Palette, provider: &PublisherState) -> String {
    let tone = match provider.status.as_str() {
        "ok" | "standby" => Tone::Good,
        "failing" => Tone::Bad,
        _ => Tone::Warn,
    };
    let status = palette.paint(tone, &provider.status);
    let since = provider.behind_since.as_ref().map_or_else(String::new, |since| format!(" since {since}"));
    let next = provider.next_sync_at.as_ref().map_or_else(String::new, |next| format!(", next sync {next}"));
    let (name, owned, foreign) = (&provider.name, provider.owned, provider.foreign);
    let mut text = format!("{name}: {status}{since}, {owned} record sets owned, {foreign} of other owners{next}\n");
    if let Some(leader) = &provider.standby {
        text += &format!("  {leader}\n");
    }
    if let Some(error) = &provider.error {
        text += &format!("  {}", palette.line(Tone::Warn, error));
    }
    let unpublished = provider.records.iter().filter(|record| record.status != "published");
    let row = |record: &PublishedRecord| {
        let status = Cell::new(Tone::Warn, record.status.as_str());
        let since = record.since.as_deref().unwrap_or_default();
        let [name, rtype, reason] = [&record.name, &record.rtype, &record.reason].map(|text| text.as_str().into());
        vec![name, rtype, status, since.into(), reason]
    };
    text + &table(palette, 2, &["name", "type", "status", "since", "reason"], unpublished.map(row))
}

fn show_plan(out: Out, as_json: bool, plan: &PublishPlan) -> anyhow::Result<ExitCode> {
    out.show(as_json, plan, |palette| plan_text(palette, plan))?;
    let is_complete = plan.error.is_none() && plan.refused.is_empty() && plan.deletions_refused.is_none();
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns a client, and the given provider, else the only one of the server.
async fn client_and_provider(server: &ServerArgs, given: Option<String>) -> anyhow::Result<(Client, String)> {
    let client = client(server)?;
    let provider = match given {
        Some(provider) => provider,
        None => match &client.publishing().await?.providers[..] {
            [one] => one.name.clone(),
            [] => bail!(NO_PROVIDER),
            several => bail!("there are {} providers; give the name of one", several.len()),
        },
    };
    Ok((client, provider))
}

async fn take(out: Out, args: TakeArgs) -> anyhow::Result<ExitCode> {
    let TakeArgs { provider, from, step, names, reason, after, dry_run, server, json } = args;
    let names = names.iter().map(ToString::to_string).collect();
    let order = TakeOrder { from, step, names, reason, after_secs: after.as_secs(), dry_run };
    let (client, provider) = client_and_provider(&server, provider).await?;
    let report = client.take(&provider, &order).await?;
    out.show(json, &report, |palette| take_text(palette, &report, &order))?;
    let has_refused = report.records.iter().any(|record| record.status == "refused");
    Ok(if report.error.is_some() || has_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn take_text(palette: Palette, report: &TakeReport, order: &TakeOrder) -> String {
    let rows = report.records.iter().map(|record| {
        let tone = if matches!(&*record.status, "announced" | "taken" | "returned") { Tone::Good } else { Tone::Warn };
        let status = Cell::new(tone, record.status.as_str());
        vec![record.name.as_str().into(), record.rtype.as_str().into(), status, record.reason.as_str().into()]
    });
    let mut text = table(palette, 0, &["name", "type", "status", "reason"], rows);
    if let Some(error) = &report.error {
        text += &palette.line(Tone::Warn, &format!("! {error}"));
    }
    let done = report.records.iter().filter(|record| record.status != "left").count();
    let (provider, step, from) = (&report.provider, &order.step, &order.from);
    let state = if report.dry_run { "dry run" } else { "done" };
    text += &format!(
        "{provider}, {step} from {from}, {state}: {done} record sets, {} not changed\n",
        report.records.len() - done
    );
    if !report.dry_run && order.step == "announce" && done > 0 {
        text += &format!("finish it with: fairway publish take {provider} --from {from} --step finish\n");
    }
    text
}

fn plan_text(palette: Palette, plan: &PublishPlan) -> String {
    let mut text = String::new();
    let line = |mark: &str, tone, set: &PlannedSet| {
        let PlannedSet { name, rtype, ttl, records, set_identifier, properties } = set;
        let fields = properties.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>();
        let which = if set_identifier.is_empty() { fields } else { format!(" ({set_identifier}{fields})") };
        palette.line(tone, &format!("{mark} {name} {ttl} {rtype} {}{which}", records.join(", ")))
    };
    for set in &plan.create {
        text += &line("+", Tone::Good, set);
    }
    for update in &plan.update {
        text += &line("-", Tone::Bad, &update.from);
        text += &line("+", Tone::Good, &update.to);
    }
    for set in &plan.delete {
        text += &line("-", Tone::Bad, set);
    }
    for refused in &plan.refused {
        let line = format!("! {} {}: {}", refused.name, refused.rtype, refused.reason);
        text += &palette.line(Tone::Warn, &line);
    }
    for problem in plan.deletions_refused.iter().chain(&plan.error) {
        text += &palette.line(Tone::Warn, &format!("! {problem}"));
    }
    let [create, update, delete] = [plan.create.len(), plan.update.len(), plan.delete.len()];
    let state = if plan.changed.is_some() { "done".to_owned() } else { format!("plan {}", plan.id) };
    let (kept, foreign, registry, provider) = (plan.kept, plan.foreign, plan.registry, &plan.provider);
    text += &format!(
        "{provider}, {state}: {create} created, {update} updated, {delete} deleted, {registry} in the registry; {kept} unchanged, \
         {foreign} of other owners\n"
    );
    text
}

/// Message if there is nothing to publish to.
const NO_PROVIDER: &str =
    "no providers; declare one in the section `publish` of the configuration, or as a dns-update-record";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_printed_like_a_diff() {
        let set = |last: u8| PlannedSet {
            name: "www.x.".to_owned(),
            rtype: "A".to_owned(),
            ttl: 30,
            records: vec![format!("192.0.2.{last}")],
            ..PlannedSet::default()
        };
        let plan = PublishPlan {
            provider: "bind".to_owned(),
            id: "5b0c37d91e24a6f8".to_owned(),
            update: vec![fairway_api_types::publishing_wire::PlannedUpdate { from: set(1), to: set(2) }],
            foreign: 7,
            ..PublishPlan::default()
        };
        let text = plan_text(Palette::PLAIN, &plan);
        assert_eq!(
            text,
            "- www.x. 30 A 192.0.2.1\n+ www.x. 30 A 192.0.2.2\n\
             bind, plan 5b0c37d91e24a6f8: 0 created, 1 updated, 0 deleted, 0 in the registry; 0 unchanged, 7 of other owners\n"
        );
    }
}
