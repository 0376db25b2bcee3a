//! `POST /v1/publishing/{provider}/take`: record sets of another owner are taken over, a step a call.
//!
//! Each step stands in the audit log, with a line for each record set: who, when, why.

use std::time::{Duration, SystemTime};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use fairway_model::{Name, RecordSetKey, Timestamp};
use fairway_providers::publish::{HandedOver, Handover, Step, TakeError};

use super::{
    problem::problem,
    publishing::named,
    routes::{Caller, Site},
};
use fairway_api_types::publishing_wire::{PublishedRecord, TakeOrder, TakeReport};

pub(super) async fn take(
    State(site): State<Site>,
    Path(provider): Path<String>,
    caller: Option<Extension<Caller>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(error) => return problem(error.status(), format!("{}; the limit is 16 KiB", error.body_text())),
    };
    let (order, handover) = match parsed(&body) {
        Ok(parsed) => parsed,
        Err(what) => return problem(StatusCode::BAD_REQUEST, what),
    };
    let publisher = match named(&site, &provider) {
        Ok(publisher) => publisher,
        Err(response) => return *response,
    };
    let outcome = if order.dry_run {
        let handed = publisher.draft_hand_over(&handover).await;
        handed.map(|handed| HandedOver { handed, ..HandedOver::default() })
    } else {
        publisher.hand_over(handover.clone()).await
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(TakeError::Impossible(why)) => return problem(StatusCode::CONFLICT, format!("{provider}: {why}")),
        Err(TakeError::Provider(why)) => return problem(StatusCode::BAD_GATEWAY, format!("{provider}: {why}")),
    };
    let report = report(&provider, &order, &handover, &outcome);
    if !order.dry_run {
        let who = caller.map(|Extension(Caller(who))| who).unwrap_or_default();
        audit(&who, &order, &report);
    }
    Json(report).into_response()
}

/// What is asked for, read; or what is wrong with it.
fn parsed(body: &[u8]) -> Result<(TakeOrder, Handover), String> {
    let order: TakeOrder =
        serde_json::from_slice(body).map_err(|error| format!("{error}; give from and step as one JSON object"))?;
    let is_line = |text: &str| text.len() <= 1_024 && !text.chars().any(char::is_control);
    if order.from.is_empty() || !is_line(&order.from) {
        return Err("from: give the id of the owner as it stands in the registry, at most 1024 octets".to_owned());
    }
    if !is_line(&order.reason) {
        return Err("reason: give one line of at most 1024 octets".to_owned());
    }
    if order.after_secs > 86_400 {
        return Err(format!("afterSecs: {} is over 86400, a day", order.after_secs));
    }
    let step = match order.step.as_str() {
        "announce" => Step::Announce,
        "finish" => Step::Finish,
        "abort" => Step::Abort,
        other => return Err(format!("step: {other:?} is none; it is announce, finish or abort")),
    };
    let name = |text: &String| text.parse::<Name>().map_err(|error| format!("names: {text:?}: {error}"));
    let handover = Handover {
        from: order.from.clone(),
        names: order.names.iter().map(name).collect::<Result<_, _>>()?,
        step,
        after: Duration::from_secs(order.after_secs),
        now: Timestamp::from(SystemTime::now()),
    };
    Ok((order, handover))
}

fn report(provider: &str, order: &TakeOrder, handover: &Handover, outcome: &HandedOver) -> TakeReport {
    let done = match handover.step {
        Step::Announce => "announced",
        Step::Finish => "taken",
        Step::Abort => "returned",
    };
    let record = |key: &RecordSetKey, status: &str, reason: &str| PublishedRecord {
        name: key.name.to_string(),
        rtype: key.rtype.to_string(),
        set_identifier: key.set_identifier.clone(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        ..PublishedRecord::default()
    };
    let sets = outcome.handed.sets.iter().map(|key| match (outcome.refused.get(&key.name), &outcome.broken) {
        (Some(why), _) => record(key, "refused", why),
        // How far it came is seen by the next reading.
        (None, Some(_)) => record(key, "waiting", ""),
        (None, None) => record(key, done, ""),
    });
    let left = outcome.handed.left.iter().map(|(key, why)| record(key, "left", why));
    TakeReport {
        provider: provider.to_owned(),
        dry_run: order.dry_run,
        records: sets.chain(left).collect(),
        error: outcome.broken.as_ref().map(ToString::to_string),
    }
}

/// A line for each record set that a step was about.
fn audit(identity: &str, order: &TakeOrder, report: &TakeReport) {
    let TakeOrder { from, step, reason, .. } = order;
    let provider = &*report.provider;
    for record in report.records.iter().filter(|record| record.status != "left") {
        let PublishedRecord { name, rtype, status, .. } = record;
        tracing::info!(target: "fairway::audit", identity, provider, step, previous_owner = from, name, rtype, outcome = status, reason, "take");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_with_its_defaults() {
        let (order, handover) = parsed(br#"{"from": "them", "step": "finish", "names": ["A.x"]}"#).unwrap();
        assert_eq!((order.dry_run, handover.after), (false, Duration::from_secs(120)));
        assert_eq!((handover.step, handover.names.len()), (Step::Finish, 1));
    }

    #[test]
    fn what_is_wrong_with_an_order_is_told() {
        for (body, what) in [
            ("", "give from and step"),
            (r#"{"from": "", "step": "finish"}"#, "from: give the id"),
            (r#"{"from": "a", "step": "seize"}"#, "announce, finish or abort"),
            (r#"{"from": "a", "step": "finish", "afterSecs": 86401}"#, "over 86400"),
            (r#"{"from": "a", "step": "finish", "names": ["a..b"]}"#, "names: \"a..b\""),
            (r#"{"from": "a", "step": "finish", "reason": "two\nlines"}"#, "one line"),
            (r#"{"from": "a", "step": "finish", "force": true}"#, "unknown field"),
        ] {
            let told = parsed(body.as_bytes()).unwrap_err();
            assert!(told.contains(what), "{body}: {told}");
        }
    }
}
