//! `/v1/publishing`: how publishing stands, what a sync would do, and a sync now.

use std::time::SystemTime;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use fairway_model::{ProviderSet, SetKey, Timestamp};
use fairway_providers::publish::{Condition, Draft, Outcome, Publisher, SetStanding};
use fairway_zonefile::rdata_text;

use super::{problem::problem, routes::Site};
use fairway_api_types::publishing_wire::{
    PlannedSet, PlannedUpdate, PublishParameters, PublishPlan, PublishedRecord, PublisherState, PublishingState,
};

pub(super) async fn all(State(site): State<Site>) -> Json<PublishingState> {
    let publishers = site.control.shared().publishers.load_full();
    Json(PublishingState { providers: publishers.iter().map(shown).collect() })
}

type Parameters = Result<Query<PublishParameters>, QueryRejection>;

pub(super) async fn plan(State(site): State<Site>, Path(name): Path<String>, parameters: Parameters) -> Response {
    let (publisher, deletions) = match found(&site, &name, parameters) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    match publisher.draft(deletions).await {
        Ok(draft) => Json(planned(name, &draft)).into_response(),
        Err(error) => problem(StatusCode::BAD_GATEWAY, format!("{name}: {error}")),
    }
}

pub(super) async fn apply(State(site): State<Site>, Path(name): Path<String>, parameters: Parameters) -> Response {
    let (publisher, deletions) = match found(&site, &name, parameters) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    match publisher.apply(deletions).await {
        Ok(outcome) => Json(applied(name, &outcome)).into_response(),
        Err(error) => problem(StatusCode::BAD_GATEWAY, format!("{name}: {error}")),
    }
}

fn found(site: &Site, name: &str, parameters: Parameters) -> Result<(Publisher, usize), Box<Response>> {
    let refuse = |status, what: String| Err(Box::new(problem(status, what)));
    let deletions = match parameters {
        Ok(Query(PublishParameters { deletions })) => deletions,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, error.body_text()),
    };
    Ok((named(site, name)?, deletions))
}

/// The publisher of this name, or the answer that there is none.
pub(super) fn named(site: &Site, name: &str) -> Result<Publisher, Box<Response>> {
    let publishers = site.control.shared().publishers.load();
    publishers.iter().find(|publisher| publisher.setup().name == name).cloned().ok_or_else(|| {
        let what = format!("no provider that is published to is called {name}; GET /v1/publishing lists them");
        Box::new(problem(StatusCode::NOT_FOUND, what))
    })
}

fn shown(publisher: &Publisher) -> PublisherState {
    let (setup, status) = (publisher.setup(), publisher.status());
    let moment = |at: Option<SystemTime>| at.map(|at| Timestamp::from(at).to_string());
    let lag = status.behind_since.and_then(|since| SystemTime::now().duration_since(since).ok());
    PublisherState {
        name: setup.name.clone(),
        zones: setup.rules.zones.iter().map(ToString::to_string).collect(),
        auto: setup.auto,
        standing: status.word().to_owned(),
        behind_since: moment(status.behind_since),
        synced_at: moment(status.synced_at),
        succeeded_at: moment(status.succeeded_at),
        next_sync_at: moment(status.due_at),
        lag_secs: lag.map_or(0, |lag| lag.as_secs()),
        error: status.error.clone(),
        failures: status.failures,
        owned: status.owned,
        foreign: status.foreign,
        changed: status.counts.changed,
        drifted: status.counts.drifted,
        records: status.conditions.iter().map(|(key, standing)| since(key, standing)).collect(),
    }
}

fn since(key: &SetKey, standing: &SetStanding) -> PublishedRecord {
    let since = Some(Timestamp::from(standing.since).to_string());
    PublishedRecord { since, ..record(key, &standing.condition) }
}

fn record(key: &SetKey, condition: &Condition) -> PublishedRecord {
    let reason = match condition {
        Condition::Published | Condition::Waiting | Condition::Leaving => String::new(),
        Condition::Hindered(why) => why.to_string(),
        Condition::Refused(why) => why.clone(),
    };
    PublishedRecord {
        name: key.name.to_string(),
        rtype: key.rtype.to_string(),
        set_identifier: key.set_identifier.clone(),
        condition: condition.words().0.to_owned(),
        since: None,
        reason,
    }
}

fn planned(provider: String, draft: &Draft) -> PublishPlan {
    let changes = &draft.changes;
    let all: usize = draft.units.iter().map(|unit| unit.changes.len()).sum();
    let refused =
        |(key, why): &(SetKey, fairway_providers::publish::Obstacle)| record(key, &Condition::Hindered(why.clone()));
    PublishPlan {
        provider,
        create: changes.create.iter().map(set).collect(),
        update: changes.update.iter().map(|u| PlannedUpdate { from: set(&u.from), to: set(&u.to) }).collect(),
        delete: changes.delete.iter().map(set).collect(),
        kept: draft.kept.len(),
        foreign: draft.foreign,
        registry: all.saturating_sub(changes.len()),
        refused: draft.refused.iter().map(refused).collect(),
        deletions_refused: draft.deletions.map(|refused| refused.to_string()),
        ..PublishPlan::default()
    }
}

fn applied(provider: String, outcome: &Outcome) -> PublishPlan {
    let mut plan = planned(provider, &outcome.draft);
    let refused = |(name, why): (&fairway_model::Name, &String)| PublishedRecord {
        name: name.to_string(),
        condition: "refused".to_owned(),
        reason: why.clone(),
        ..PublishedRecord::default()
    };
    plan.refused.extend(outcome.refused.iter().map(refused));
    plan.changed = Some(outcome.changed);
    plan.error = outcome.broken.as_ref().map(ToString::to_string);
    plan
}

fn set(set: &ProviderSet) -> PlannedSet {
    PlannedSet {
        name: set.set.name.to_string(),
        rtype: set.set.rtype.to_string(),
        ttl: set.set.ttl.secs(),
        set_identifier: set.set_identifier.clone(),
        properties: set.properties.clone(),
        records: set.set.rdatas.iter().map(|octets| rdata_text(set.set.rtype, octets)).collect(),
    }
}
