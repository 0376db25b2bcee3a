//! `fairway apply`, `diff`, `get` and `delete`: objects that are declared over the API.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Value, json};

use super::{
    client::{ServerArgs, client},
    output::{Cell, Out, Palette, Tone, count, table},
};
use fairway_api_types::{
    client::{Applying, ClientError},
    objects_wire::{ApplyReport, Difference, ObjectBody, ObjectSource, ObjectStatus, SourceKind},
    problem_wire::{FieldError, Problem},
};
use fairway_config::Sections;

/// Create or replace objects on a running server: all of them, or none.
///
/// Files hold the sections clusters, monitors, pools, names and records, as in a configuration file, and intents, each with its key, in
/// YAML or JSON. The server keeps the objects in its data folder, and its answers follow them when the command ends. Each object
/// replaces the one of its name. An object of a configuration file takes precedence.
///
/// If an object is invalid or does not fit the others, the command prints the errors and changes nothing.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway apply -f shop.yaml --reason 'the shop opens in ap1'
  fairway apply -f /etc/fairway/objects --prune --dry-run
  fairway get pools -o yaml | fairway apply --server https://dns2.example:8053 -f -

Exit status:
  0  applied, or nothing to change
  1  nothing was changed; the errors are on standard error, with the file and line of each
  2  the command line is invalid")]
pub(super) struct ApplyArgs {
    /// File, a folder whose *.yaml files are read together, or `-` for standard input; may be repeated.
    #[arg(long, short, value_name = "FILE|DIR|-", required = true, value_hint = ValueHint::AnyPath)]
    file: Vec<PathBuf>,

    /// Delete every object that was created over the API and is not in the files; of intents those that you have applied.
    ///
    /// Fails if that looks like a mistake: all of your names, at least two, or more than ten and more than a fifth of them, unless their
    /// targets are down; or the last healthy member of a name that stays. Prunes of the last ten minutes count.
    #[arg(long)]
    prune: bool,

    /// Delete also if it looks like a mistake.
    #[arg(long, requires = "prune")]
    allow_removals: bool,

    /// Store access points with `DENY`, although nothing enforces them yet.
    #[arg(long)]
    inert: bool,

    /// Only show what would change.
    #[arg(long)]
    dry_run: bool,

    /// Reason for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,
}

/// Show what `fairway apply` would change, field by field. Changes nothing.
///
/// If an object is invalid or does not fit the others, the command prints the errors.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway diff -f shop.yaml
  fairway diff -f /etc/fairway/objects --prune

Exit status:
  0  nothing would change
  1  it failed: an object is invalid, or no server is running; the reason is on standard error
  2  the command line is invalid
  4  something would change")]
pub(super) struct DiffArgs {
    /// File, a folder whose *.yaml files are read together, or `-` for standard input; may be repeated.
    #[arg(long, short, value_name = "FILE|DIR|-", required = true, value_hint = ValueHint::AnyPath)]
    file: Vec<PathBuf>,

    /// Also show what `fairway apply --prune` would delete.
    #[arg(long)]
    prune: bool,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,
}

/// Show the objects that are served, with their source: the API, a configuration file, an intent, the webhook or Kubernetes.
///
/// Of objects that no file and no client of the API declares, the main fields are shown. Intents are those of the API.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway get pools
  fairway get pools shop --json
  fairway get pools -o yaml > pools.yaml   # those of the API, as `apply` takes them
  fairway get names --source kubernetes

Exit status:
  0  success, also if there is none
  1  no object has the name, or no server is running; the reason is on standard error
  2  the command line is invalid")]
pub(super) struct GetArgs {
    /// Kind of the objects.
    kind: Section,

    /// One object by its name, an intent by its key, instead of all.
    name: Option<String>,

    /// Print the whole objects as JSON, with their metadata and status.
    #[arg(long, conflicts_with = "output")]
    json: bool,

    /// Print the objects as YAML or JSON in the form of files for `apply`, without metadata and status; without a name and `--source`
    /// those of the API.
    #[arg(long, short, value_name = "FORMAT")]
    output: Option<Format>,

    /// Only objects of this source.
    #[arg(long, conflicts_with = "name")]
    source: Option<Source>,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,
}

/// Delete an object that was created over the API.
///
/// Fails if another object refers to it. Its history remains.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway delete names shop.gslb.example --reason 'the shop has closed'

Exit status:
  0  deleted
  1  nothing was changed: it does not exist, or is still used; the reason is on standard error
  2  the command line is invalid")]
pub(super) struct DeleteArgs {
    /// Kind of the object.
    kind: Section,

    /// Its name; of an intent its key.
    name: String,

    /// Reason for the history; one line.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,
}

/// A kind of object, by its section in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Section {
    /// Clusters.
    #[value(alias = "cluster")]
    Clusters,
    /// Intents.
    #[value(alias = "intent")]
    Intents,
    /// Monitors.
    #[value(alias = "monitor")]
    Monitors,
    /// Load-balanced names.
    #[value(alias = "name")]
    Names,
    /// Pools.
    #[value(alias = "pool")]
    Pools,
    /// Records that are served as they are.
    #[value(alias = "record")]
    Records,
}

/// A source of objects.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Source {
    /// The API.
    Api,
    /// Configuration files.
    File,
    /// Intents.
    Intent,
    /// Objects of Kubernetes clusters.
    Kubernetes,
    /// Clients of the webhook.
    Webhook,
}

impl From<Source> for SourceKind {
    fn from(source: Source) -> Self {
        match source {
            Source::Api => Self::Api,
            Source::File => Self::File,
            Source::Intent => Self::Intent,
            Source::Kubernetes => Self::Kubernetes,
            Source::Webhook => Self::Webhook,
        }
    }
}

/// A format of objects.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Exit status of `diff` if something would change.
const DIFFERS: u8 = 4;

/// Declares the objects of files.
pub(super) async fn apply(out: Out, args: ApplyArgs) -> anyhow::Result<()> {
    let ApplyArgs { file, prune, allow_removals, inert, dry_run, reason, server } = args;
    let report = send(&file, &server, &Applying { dry_run, prune, allow_removals, inert, reason }).await?;
    Ok(out.print(&report_text(out.palette, &report))?)
}

/// Shows what the objects of files would change.
pub(super) async fn diff(out: Out, args: DiffArgs) -> anyhow::Result<ExitCode> {
    // It changes nothing, so the deletions may be many, and nothing is taken for enforced.
    let applying =
        Applying { dry_run: true, prune: args.prune, allow_removals: true, inert: true, reason: String::new() };
    let report = send(&args.file, &args.server, &applying).await?;
    out.print(&differences_text(out.palette, &report.differences))?;
    Ok(if changes_nothing(&report) { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) })
}

fn changes_nothing(report: &ApplyReport) -> bool {
    report.created.is_empty() && report.changed.is_empty() && report.deleted.is_empty()
}

/// Sends the objects of files. Errors of the server in an object are those of its file and line.
async fn send(files: &[PathBuf], server: &ServerArgs, applying: &Applying) -> anyhow::Result<ApplyReport> {
    let sections = Sections::read(files).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow!("nothing was sent:\n{}", lines.join("\n"))
    })?;
    client(server)?.apply(&sections.to_json(), applying).await.map_err(|error| match error {
        ClientError::Refused { at, problem: Problem { detail, errors, .. }, .. } if !errors.is_empty() => {
            let summary = detail.strip_prefix("nothing was changed: ").unwrap_or(&detail).split(": ").next();
            let lines = error_lines(&sections, &errors);
            anyhow!("{at}: nothing was changed: {}\n{lines}", summary.unwrap_or_default())
        }
        other => other.into(),
    })
}

/// Returns a line for each error, with its location if it has one.
fn error_lines(sections: &Sections, errors: &[FieldError]) -> String {
    let line = |FieldError { pointer, detail }: &FieldError| match pointer.as_str() {
        "" => detail.clone(),
        pointer => sections.error(pointer, detail).to_string(),
    };
    errors.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Shows objects.
pub(super) async fn get(out: Out, args: GetArgs) -> anyhow::Result<()> {
    let client = client(&args.server)?;
    let section: &str = args.kind.into();
    if let Some(name) = &args.name {
        let body = client.object(section, name).await?;
        // The body of an intent has no name in it, which the table needs.
        let is_intent = args.kind == Section::Intents;
        let named = if is_intent { json!({"key": name, "intent": body}) } else { body.clone() };
        let object: ObjectBody = serde_json::from_value(named)
            .context("cannot read the object that the server returned; check that the server has the same version")?;
        if let Some(format) = args.output {
            return print_objects(out, format, section, vec![object]);
        }
        return out.show(args.json, &body, |palette| list_text(palette, &[object]));
    }
    let mut found = client.objects_after(section, "").await?;
    while let Some(after) = found.next.take() {
        let page = client.objects_after(section, &after).await?;
        found.items.extend(page.items);
        found.next = page.next;
    }
    // Applied again, an object of another source would stay when that source withdraws it.
    let source = args.source.or_else(|| args.output.map(|_| Source::Api)).map(SourceKind::from);
    found.items.retain(|object| source.is_none_or(|wanted| source_of(object).kind == wanted));
    if let Some(format) = args.output {
        return print_objects(out, format, section, found.items);
    }
    out.show(args.json, &found.items, |palette| match &found.items[..] {
        [] if args.source.is_some() => format!("no {section} are of this source\n"),
        [] => format!("there are no {section}\n"),
        objects => list_text(palette, objects),
    })
}

fn source_of(object: &ObjectBody) -> ObjectSource {
    object.metadata.as_ref().map(|metadata| metadata.source.clone()).unwrap_or_default()
}

/// Prints objects in the form of a file for `apply`.
fn print_objects(out: Out, format: Format, section: &str, objects: Vec<ObjectBody>) -> anyhow::Result<()> {
    let specs = objects.into_iter().map(|object| {
        let mut spec = Value::Object(object.spec);
        // The body of an intent has its status inside.
        if let Some(intent) = spec.get_mut("intent").and_then(Value::as_object_mut) {
            intent.remove("status");
        }
        spec
    });
    let body = json!({ section: specs.collect::<Vec<_>>() });
    match format {
        Format::Json => out.line(&format!("{body:#}"))?,
        Format::Yaml => out.print(&serde_saphyr::to_string(&body)?)?,
    }
    Ok(())
}

/// Deletes an object.
pub(super) async fn delete(out: Out, args: DeleteArgs) -> anyhow::Result<()> {
    let section: &str = args.kind.into();
    if args.name.is_empty() {
        bail!("{section}: the name is empty; give the name of the object");
    }
    client(&args.server)?.delete_object(section, &args.name, &args.reason).await?;
    Ok(out.line(&format!("deleted: {section}/{}", args.name))?)
}

/// Lists the fields that would change, below the name of their object.
fn differences_text(palette: Palette, differences: &[Difference]) -> String {
    let mut text = String::new();
    let mut current = "";
    for Difference { object, pointer, before, after } in differences {
        if current != object {
            text += &format!("{object}\n");
            current = object;
        }
        let at = if pointer.is_empty() { String::new() } else { format!(" {pointer}:") };
        for (sign, tone, value) in [("-", Tone::Bad, before), ("+", Tone::Good, after)] {
            if !value.is_null() {
                text += &format!("  {}", palette.line(tone, &format!("{sign}{at} {value}")));
            }
        }
    }
    text
}

/// Formats the result of `apply`, or with `--dry-run` what it would be.
fn report_text(palette: Palette, report: &ApplyReport) -> String {
    let mut text = String::new();
    for (word, tone, objects) in [
        ("created", Tone::Good, &report.created),
        ("changed", Tone::Warn, &report.changed),
        ("deleted", Tone::Bad, &report.deleted),
    ] {
        for object in objects {
            text += &format!("{}  {object}\n", palette.paint(tone, word));
        }
    }
    if report.unchanged > 0 {
        text += &format!("{} unchanged\n", count(report.unchanged, "object is", "objects are"));
    }
    for line in &report.effect {
        text += &format!("effect   {line}\n");
    }
    for line in &report.rejected {
        text += &format!("{}  {line}\n", palette.paint(Tone::Warn, "rejected"));
    }
    text += match (report.dry_run, changes_nothing(report), report.served) {
        (true, ..) => "dry run: nothing was changed\n",
        (false, true, _) => "nothing to change\n",
        (false, false, true) => "served: the change is in the answers\n",
        (false, false, false) => "stored, but not served yet: see `fairway get` and the log of the server\n",
    };
    text
}

/// Formats objects as a table.
fn list_text(palette: Palette, objects: &[ObjectBody]) -> String {
    let row = |object: &ObjectBody| {
        let metadata = object.metadata.clone().unwrap_or_default();
        // The status of an intent is inside its body.
        let intent_status =
            object.spec.get("intent").and_then(|intent| serde_json::from_value(intent.get("status")?.clone()).ok());
        let status: ObjectStatus = object.status.clone().or(intent_status).unwrap_or_default();
        // The first condition that keeps the object from being served.
        let problem = status.conditions.iter().find(|condition| match condition.kind.as_str() {
            "Conflict" => condition.status == "True",
            _ => condition.status != "True",
        });
        let status_cell = match problem {
            None => Cell::new(Tone::Good, "served"),
            Some(condition) => Cell::new(Tone::Warn, condition.reason.as_str()),
        };
        let name = object.spec.get("name").or_else(|| object.spec.get("key")).and_then(Value::as_str);
        let ObjectSource { kind, from } = metadata.source;
        let (kind, generation) = (kind.as_str(), metadata.generation);
        vec![
            name.unwrap_or_default().into(),
            if from.is_empty() { kind.into() } else { format!("{kind} {}", from.join(" ")).into() },
            status_cell,
            if generation == 0 { "".into() } else { generation.to_string().into() },
            metadata.changed.into(),
            metadata.changed_by.into(),
            metadata.reason.into(),
            problem.map(|condition| condition.message.clone()).unwrap_or_default().into(),
        ]
    };
    let head = ["name", "source", "status", "generation", "changed", "by", "reason", ""];
    table(palette, 0, &head, objects.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diff_lists_old_and_new_values_below_their_object() {
        let difference = |object: &str, pointer: &str, before: Value, after: Value| Difference {
            object: object.to_owned(),
            pointer: pointer.to_owned(),
            before,
            after,
        };
        let text = differences_text(
            Palette::PLAIN,
            &[
                difference("pools/shop", "/ttl", "30s".into(), "60s".into()),
                difference("pools/shop", "/monitor", Value::Null, "tcp".into()),
                difference("clusters/eu9", "", json!({"name": "eu9"}), Value::Null),
            ],
        );
        let expected = "pools/shop\n  - /ttl: \"30s\"\n  + /ttl: \"60s\"\n  + /monitor: \"tcp\"\nclusters/eu9\n  - {\"name\":\"eu9\"}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn apply_report_lists_changes_and_if_they_are_served() {
        let report = ApplyReport {
            created: vec!["pools/shop".to_owned()],
            deleted: vec!["clusters/eu9".to_owned()],
            unchanged: 3,
            effect: vec!["pools: 1 added, 0 changed, 0 removed".to_owned()],
            served: true,
            ..ApplyReport::default()
        };
        let text = report_text(Palette::PLAIN, &report);
        let expected = "created  pools/shop\ndeleted  clusters/eu9\n3 objects are unchanged\n\
                      effect   pools: 1 added, 0 changed, 0 removed\nserved: the change is in the answers\n";
        assert_eq!(text, expected);
        let dry_run = report_text(Palette::PLAIN, &ApplyReport { dry_run: true, ..report });
        assert!(dry_run.ends_with("dry run: nothing was changed\n"), "{dry_run}");
        assert_eq!(report_text(Palette::PLAIN, &ApplyReport::default()), "nothing to change\n");
    }

    #[test]
    fn object_table_shows_why_an_object_is_not_served() {
        let body = |name: &str, accepted: &str| {
            let text = format!(
                r#"{{"name": "{name}", "metadata": {{"generation": 2, "changedBy": "local user 0"}}, "status": {{"conditions":
                [{{"type": "Accepted", "status": "{accepted}", "reason": "Invalid", "message": "cluster eu9 is not declared"}}]}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let text = list_text(Palette::PLAIN, &[body("shop", "True"), body("pay", "False")]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("shop  api     served") && !lines[1].contains("eu9"), "{text}");
        assert!(lines[2].contains("Invalid") && lines[2].ends_with("cluster eu9 is not declared"), "{text}");
    }
}
