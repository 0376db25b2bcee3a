//! `fairway events`: the timeline of the change log.

use std::{fmt::Write as _, time::Duration};

use clap::Args;
use fairway_api_types::history_wire::{EventParameters, Timeline, TimelineEvent};
use fairway_model::Timestamp;
use serde_json::Value;

use super::{
    client::{ServerArgs, client},
    output::{Out, Palette, Tone},
    values,
};

/// Show what changed answers.
///
/// Lists events of the change log, oldest first: health, overrides with who and why, changes of the configuration, over the API, by the
/// webhook and of Kubernetes clusters, schedules, load control, publishing and held withdrawals. The log is kept over restarts, within
/// history.bytes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway events --since 1h
  fairway events --since 03:00 --until 03:30 --event health,override
  fairway events --contains eu1 --follow")]
pub(super) struct EventsArgs {
    /// Earliest time: RFC 3339, a time ago like 90m, or a time of day in UTC like 03:12. Default: the beginning of the log.
    #[arg(long, value_name = "TIME", value_parser = values::past)]
    since: Option<Timestamp>,

    /// Latest time. Default: now.
    #[arg(long, value_name = "TIME", value_parser = values::past, conflicts_with = "follow")]
    until: Option<Timestamp>,

    /// Kinds, separated by commas: process, health, override, configuration, change, api, schedule, load, publishing, hold, kubernetes.
    #[arg(long, value_name = "KINDS")]
    event: Option<String>,

    /// Only events that contain this text, in any case: a cluster, a pool, an address, a name, a person.
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,

    /// Maximum number; of more, the newest.
    #[arg(long, value_name = "NUMBER", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,

    /// Go on, and print events as they happen, until interrupted.
    #[arg(long, short)]
    follow: bool,

    /// The server.
    #[command(flatten)]
    server: ServerArgs,

    /// Print JSON, as `GET /v1/events` returns it; with --follow, one event a line.
    #[arg(long)]
    json: bool,
}

/// Lists events.
pub(super) async fn events(out: Out, args: EventsArgs) -> anyhow::Result<()> {
    let client = client(&args.server)?;
    let time = |time: Option<Timestamp>| time.map(|time| format!("{time:.9}"));
    let mut query = EventParameters {
        since: time(args.since),
        until: time(args.until),
        event: args.event,
        contains: args.contains,
        after: None,
        limit: Some(args.limit),
    };
    let mut found = client.events(&query).await?;
    if !args.follow {
        return out.show(args.json, &found, |palette| render(palette, &found));
    }
    loop {
        for event in &found.events {
            if args.json {
                out.line(&serde_json::to_string(event)?)?;
            } else {
                out.show(false, event, |palette| line(palette, event) + "\n")?;
            }
        }
        query.after = found.events.last().map(|event| event.id).or(query.after).or(Some(0));
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        found = client.events(&query).await?;
    }
}

fn render(palette: Palette, found: &Timeline) -> String {
    let mut text = String::new();
    for event in &found.events {
        let _ = writeln!(text, "{}", line(palette, event));
    }
    if found.events.is_empty() {
        let begins = found.begins.as_deref().map_or_else(String::new, |begins| format!("; the log begins at {begins}"));
        let _ = writeln!(text, "no events{begins}");
    }
    text
}

/// Formats an event: time, kind, message, and its fields as `name=value`.
fn line(palette: Palette, event: &TimelineEvent) -> String {
    let TimelineEvent { time, event: kind, level, message, fields, .. } = event;
    let tone = match level.as_str() {
        "error" => Tone::Bad,
        "warn" => Tone::Warn,
        _ => Tone::Strong,
    };
    // Whole seconds are enough to read.
    let time =
        time.parse::<Timestamp>().map_or_else(|_| time.clone(), |time| Timestamp::from_secs(time.secs()).to_string());
    let mut text = format!("{} {kind:<13} {}", palette.paint(Tone::Quiet, &time), palette.paint(tone, message));
    for (name, value) in fields {
        let value = match value {
            Value::String(value) if value.is_empty() => continue,
            Value::String(value) if value.contains([' ', '"', '=']) => format!("{value:?}"),
            Value::String(value) => value.clone(),
            value => value.to_string(),
        };
        let _ = write!(text, " {}{value}", palette.paint(Tone::Quiet, &format!("{name}=")));
    }
    text
}

/// Time between two looks for new events.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_line_with_its_fields() {
        let fields =
            [("scope", "eu1".into()), ("reason", "kernel update".into()), ("from", "".into()), ("pools", 2.into())];
        let event = TimelineEvent {
            id: 1,
            time: "2026-11-30T03:12:00.123456Z".into(),
            event: "override".into(),
            level: "warn".into(),
            message: "override added".into(),
            trace: None,
            fields: fields.map(|(name, value)| (name.to_owned(), value)).into(),
        };
        let expected = r#"2026-11-30T03:12:00Z override      override added pools=2 reason="kernel update" scope=eu1"#;
        assert_eq!(line(Palette::PLAIN, &event), expected);
        let none = Timeline { begins: Some("2026-11-30T00:00:00Z".into()), events: vec![] };
        assert_eq!(render(Palette::PLAIN, &none), "no events; the log begins at 2026-11-30T00:00:00Z\n");
    }
}
