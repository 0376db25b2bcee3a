//! `fairway apply`, `diff`, `get` and `delete`: what is declared over the API.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use super::{
    ask,
    objects_args::{ApplyArgs, DeleteArgs, DiffArgs, GetArgs, Section},
    output::{Cell, Out, Palette, Tone, count, table},
    wait,
};
use fairway_api_types::{
    client::Applying,
    objects_wire::{ApplyReport, Difference, ObjectBody, ObjectList, ObjectStatus},
};

/// Declares what files say.
pub(super) fn apply(out: Out, args: ApplyArgs) -> anyhow::Result<ExitCode> {
    let body = sections(&args.file)?;
    let ApplyArgs { prune, dry_run, reason, server, .. } = args;
    let client = ask::asked(&server)?;
    let report = wait(async { Ok(client.apply(&body, &Applying { dry_run, prune, reason }).await?) })?;
    out.print(&told(out.palette, &report))?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what files would change.
pub(super) fn diff(out: Out, args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let body = sections(&args.file)?;
    let client = ask::asked(&args.server)?;
    let wanted = Applying { dry_run: true, prune: args.prune, reason: String::new() };
    let report = wait(async { Ok(client.apply(&body, &wanted).await?) })?;
    let differs = ![&report.created, &report.changed, &report.deleted].into_iter().all(Vec::is_empty);
    out.print(&differences_text(out.palette, &report.differences))?;
    Ok(if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
}

/// What files say, by section.
fn sections(files: &[PathBuf]) -> anyhow::Result<Value> {
    fairway_config::sections(files).map_err(|faults| {
        let lines: Vec<String> = faults.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("nothing was sent:\n{}", lines.join("\n"))
    })
}

/// Shows objects.
pub(super) fn get(out: Out, args: &GetArgs) -> anyhow::Result<ExitCode> {
    let (client, section) = (ask::asked(&args.server)?, args.kind.word());
    let mut found = Vec::new();
    if let Some(name) = &args.name {
        let one = wait(async { Ok(client.object(section, name).await?) })?;
        // What an intent says has no place for what is known of it.
        let is_listed = args.kind == Section::Intents && !args.json;
        found.push(if is_listed { json!({"key": name, "intent": one}) } else { one });
    } else {
        let mut after = String::new();
        loop {
            let list: ObjectList = wait(async { Ok(client.objects_after(section, &after).await?) })?;
            found.extend(list.items.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?);
            let Some(next) = list.next else { break };
            after = next;
        }
    }
    if args.json {
        let all = if args.name.is_some() { found.swap_remove(0) } else { Value::from(found) };
        out.line(&serde_json::to_string_pretty(&all).context("the objects have no JSON form")?)?;
    } else if found.is_empty() {
        out.line(&format!("no {section} were declared over the API; `fairway status` shows those of files"))?;
    } else {
        let objects = found.into_iter().map(serde_json::from_value).collect::<Result<Vec<ObjectBody>, _>>();
        out.print(&list_text(out.palette, &objects.context("the server speaks of objects in another way")?))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Takes an object away.
pub(super) fn delete(out: Out, args: &DeleteArgs) -> anyhow::Result<ExitCode> {
    let (client, section) = (ask::asked(&args.server)?, args.kind.word());
    if args.name.is_empty() {
        bail!("{section}: give the name of one");
    }
    wait(async { Ok(client.delete_object(section, &args.name, &args.reason).await?) })?;
    out.line(&format!("deleted: {section}/{}", args.name))?;
    Ok(ExitCode::SUCCESS)
}

/// Each field that would say something else, below the object that it is of.
fn differences_text(palette: Palette, differences: &[Difference]) -> String {
    let (mut text, mut of) = (String::new(), "");
    for Difference { object, pointer, before, after } in differences {
        if of != object {
            text += &format!("{object}\n");
            of = object;
        }
        let at = if pointer.is_empty() { String::new() } else { format!(" {pointer}:") };
        for (sign, tone, said) in [("-", Tone::Bad, before), ("+", Tone::Good, after)] {
            if !said.is_null() {
                text += &format!("  {}\n", palette.paint(tone, &format!("{sign}{at} {said}")));
            }
        }
    }
    text
}

/// What was done, or would be.
fn told(palette: Palette, report: &ApplyReport) -> String {
    let mut text = String::new();
    for (word, tone, objects) in [
        ("created", Tone::Good, &report.created),
        ("changed", Tone::Warn, &report.changed),
        ("deleted", Tone::Bad, &report.deleted),
    ] {
        objects.iter().for_each(|object| text += &format!("{}  {object}\n", palette.paint(tone, word)));
    }
    if report.unchanged > 0 {
        text += &format!("{} as before\n", count(report.unchanged, "object is", "objects are"));
    }
    report.effect.iter().for_each(|line| text += &format!("effect   {line}\n"));
    for line in &report.rejected {
        text += &format!("{}  {line}\n", palette.paint(Tone::Warn, "rejected"));
    }
    let is_nothing = report.created.is_empty() && report.changed.is_empty() && report.deleted.is_empty();
    text += match (report.dry_run, is_nothing, report.served) {
        (true, ..) => "nothing was changed: it was only tried\n",
        (false, true, _) => "nothing to do\n",
        (false, false, true) => "it is in the answers\n",
        (false, false, false) => "it is kept, and not in the answers yet: see `fairway get`, and the server's log\n",
    };
    text
}

/// Objects as a table.
fn list_text(palette: Palette, objects: &[ObjectBody]) -> String {
    let row = |object: &ObjectBody| {
        let known = object.metadata.clone().unwrap_or_default();
        // An intent has its status within.
        let own =
            object.spec.get("intent").and_then(|intent| serde_json::from_value(intent.get("status")?.clone()).ok());
        let status: ObjectStatus = object.status.clone().or(own).unwrap_or_default();
        let conditions = status.conditions.iter();
        // What is said first of what stands in the way.
        let trouble = conditions.clone().find(|condition| match condition.kind.as_str() {
            "Conflict" => condition.status == "True",
            _ => condition.status != "True",
        });
        let status_cell = match trouble {
            None => Cell::new(Tone::Good, "served"),
            Some(condition) => Cell::new(Tone::Warn, condition.reason.as_str()),
        };
        vec![
            object
                .spec
                .get("name")
                .or_else(|| object.spec.get("key"))
                .and_then(Value::as_str)
                .unwrap_or_default()
                .into(),
            status_cell,
            known.generation.to_string().into(),
            known.changed.into(),
            known.changed_by.into(),
            known.reason.into(),
            trouble.map(|condition| condition.message.clone()).unwrap_or_default().into(),
        ]
    };
    let head = ["name", "status", "generation", "changed", "by", "reason", ""];
    table(palette, 0, &head, &objects.iter().map(row).collect::<Vec<_>>())
}

/// Exit status where files say something else than what is declared.
const DIFFERS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_stand_below_their_object_with_what_was_and_what_would_be() {
        let of = |object: &str, pointer: &str, before: Value, after: Value| Difference {
            object: object.to_owned(),
            pointer: pointer.to_owned(),
            before,
            after,
        };
        let text = differences_text(
            Palette::PLAIN,
            &[
                of("pools/shop", "/ttl", "30s".into(), "60s".into()),
                of("pools/shop", "/monitor", Value::Null, "tcp".into()),
                of("clusters/eu9", "", json!({"name": "eu9"}), Value::Null),
            ],
        );
        let wanted = "pools/shop\n  - /ttl: \"30s\"\n  + /ttl: \"60s\"\n  + /monitor: \"tcp\"\nclusters/eu9\n  - {\"name\":\"eu9\"}\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_report_says_what_was_done_and_whether_it_is_served() {
        let report = ApplyReport {
            created: vec!["pools/shop".to_owned()],
            deleted: vec!["clusters/eu9".to_owned()],
            unchanged: 3,
            effect: vec!["pools: 1 added, 0 changed, 0 removed".to_owned()],
            served: true,
            ..ApplyReport::default()
        };
        let text = told(Palette::PLAIN, &report);
        let wanted = "created  pools/shop\ndeleted  clusters/eu9\n3 objects are as before\n\
                      effect   pools: 1 added, 0 changed, 0 removed\nit is in the answers\n";
        assert_eq!(text, wanted);
        let tried = told(Palette::PLAIN, &ApplyReport { dry_run: true, ..report });
        assert!(tried.ends_with("it was only tried\n"), "{tried}");
        assert_eq!(told(Palette::PLAIN, &ApplyReport::default()), "nothing to do\n");
    }

    #[test]
    fn a_table_says_of_each_object_what_stands_in_its_way() {
        let body = |name: &str, accepted: &str| {
            let text = format!(
                r#"{{"name": "{name}", "metadata": {{"generation": 2, "changedBy": "local user 0"}}, "status": {{"conditions":
                [{{"type": "Accepted", "status": "{accepted}", "reason": "Invalid", "message": "cluster eu9 is not declared"}}]}}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let text = list_text(Palette::PLAIN, &[body("shop", "True"), body("pay", "False")]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("shop  served") && !lines[1].contains("eu9"), "{text}");
        assert!(lines[2].contains("Invalid") && lines[2].ends_with("cluster eu9 is not declared"), "{text}");
    }
}
