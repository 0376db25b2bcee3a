//! `POST /v1/publishing/{provider}/take`: takes record sets over from another owner, one step per call.
//!
//! The audit log has a line for each record set of a step.

use std::time::{Duration, SystemTime};

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use fairway_model::{Name, RecordSetKey, Timestamp};
use fairway_providers::publish::{Handover, HandoverError, HandoverOutcome, Publisher, Step};

use crate::{
    problem::{ApiError, bad_request, problem},
    state::{AppState, Caller, RequestBody, check_line},
};
use fairway_api_types::publishing_wire::{PublishedRecord, TakeOrder, TakeReport};

pub(crate) async fn take(
    State(state): State<AppState>,
    Path(provider): Path<String>,
    Caller(caller): Caller,
    body: RequestBody,
) -> Result<Json<TakeReport>, ApiError> {
    let order = body.json::<TakeOrder>("give from and step as one JSON object")?;
    let handover = parse(&order).map_err(bad_request)?;
    let publisher = publisher(&state, &provider)?;
    let outcome = if order.dry_run {
        let planned = publisher.draft_hand_over(&handover).await;
        planned.map(|plan| HandoverOutcome { plan, ..HandoverOutcome::default() })
    } else {
        publisher.hand_over(handover.clone()).await
    };
    let outcome = outcome.map_err(|error| match error {
        HandoverError::Provider(why) => problem(StatusCode::BAD_GATEWAY, format!("{provider}: {why}")),
        impossible => problem(StatusCode::CONFLICT, format!("{provider}: {impossible}")),
    })?;
    let report = report(&provider, &order, &handover, &outcome);
    if !order.dry_run {
        audit(&caller, &order, &report);
    }
    Ok(Json(report))
}

/// Returns the publisher of this name.
pub(crate) fn publisher(state: &AppState, name: &str) -> Result<Publisher, ApiError> {
    let publishers = state.control.shared().publishers.load();
    publishers.all().find(|publisher| publisher.setup().name == name).cloned().ok_or_else(|| {
        problem(StatusCode::NOT_FOUND, format!("there is no provider {name}; GET /v1/publishing lists them"))
    })
}

/// Parses a body into the step that it describes; an error names its field.
fn parse(order: &TakeOrder) -> Result<Handover, String> {
    if order.from.is_empty() || check_line("from", &order.from).is_err() {
        return Err("from: give the id of the owner as the registry has it, at most 1024 bytes".to_owned());
    }
    check_line("reason", &order.reason)?;
    if order.after_secs > 86_400 {
        return Err(format!("afterSecs: {} is over 86400, a day", order.after_secs));
    }
    let step = match order.step.as_str() {
        "announce" => Step::Announce,
        "finish" => Step::Finish,
        "abort" => Step::Abort,
        other => return Err(format!("step: {other:?} is not supported; write announce, finish or abort")),
    };
    let name = |text: &String| text.parse::<Name>().map_err(|error| format!("names: {text:?}: {error}"));
    Ok(Handover {
        from: order.from.clone(),
        names: order.names.iter().map(name).collect::<Result<_, _>>()?,
        step,
        after: Duration::from_secs(order.after_secs),
        now: Timestamp::from(SystemTime::now()),
    })
}

fn report(provider: &str, order: &TakeOrder, handover: &Handover, outcome: &HandoverOutcome) -> TakeReport {
    let done = match handover.step {
        Step::Announce => "announced",
        Step::Finish => "taken",
        Step::Abort => "returned",
    };
    let sets =
        outcome.plan.sets.iter().map(|key| match (outcome.applied.refused.get(&key.name), &outcome.applied.broken) {
            (Some(why), _) => record(key, "refused", why.clone()),
            // The provider failed on the way; the next sync shows which sets were changed.
            (None, Some(_)) => record(key, "waiting", String::new()),
            (None, None) => record(key, done, String::new()),
        });
    let left = outcome.plan.skipped.iter().map(|(key, why)| record(key, "left", why.to_string()));
    TakeReport {
        provider: provider.to_owned(),
        dry_run: order.dry_run,
        records: sets.chain(left).collect(),
        error: outcome.applied.broken.as_ref().map(ToString::to_string),
    }
}

/// Returns the status of a record set, and the reason if it is refused or left.
pub(crate) fn record(key: &RecordSetKey, status: &str, reason: String) -> PublishedRecord {
    PublishedRecord {
        name: key.name.to_string(),
        rtype: key.rtype.to_string(),
        set_identifier: key.set_identifier.clone(),
        status: status.to_owned(),
        since: None,
        reason,
    }
}

/// Logs each record set that a step changed or was refused.
fn audit(identity: &str, order: &TakeOrder, report: &TakeReport) {
    let TakeOrder { from, step, reason, .. } = order;
    let provider = &*report.provider;
    for record in report.records.iter().filter(|record| record.status != "left") {
        let PublishedRecord { name, rtype, status, .. } = record;
        tracing::info!(target: "fairway::audit", event = "publishing", identity, provider, step, previous_owner = from, name, rtype, outcome = status, reason, "take");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Result<Handover, String> {
        parse(&serde_json::from_str(body).map_err(|error| error.to_string())?)
    }

    #[test]
    fn order_has_defaults() {
        let handover = parsed(r#"{"from": "them", "step": "finish", "names": ["A.x"]}"#).unwrap();
        assert_eq!((handover.step, handover.names.len()), (Step::Finish, 1));
        assert_eq!(handover.after, Duration::from_secs(120));
    }

    #[test]
    fn invalid_order_is_rejected_with_its_field() {
        for (body, expected) in [
            (r#"{"from": "", "step": "finish"}"#, "from: give the id"),
            (r#"{"from": "a", "step": "seize"}"#, "announce, finish or abort"),
            (r#"{"from": "a", "step": "finish", "afterSecs": 86401}"#, "over 86400"),
            (r#"{"from": "a", "step": "finish", "names": ["a..b"]}"#, "names: \"a..b\""),
            (r#"{"from": "a", "step": "finish", "reason": "two\nlines"}"#, "one line"),
            (r#"{"from": "a", "step": "finish", "force": true}"#, "unknown field"),
        ] {
            let error = parsed(body).unwrap_err();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }
}
