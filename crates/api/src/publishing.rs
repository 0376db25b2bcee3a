//! `/v1/publishing`: how publishing stands, what a sync would do, and a sync now.

use std::time::SystemTime;

use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use fairway_model::{ProviderRecordSet, RecordSetKey, Timestamp};
use fairway_providers::publish::{Condition, Draft, Outcome, Publisher, SetStanding};
use fairway_zonefile::rdata_text;

use super::{
    handover::take,
    problem::problem,
    route::{Route, Shape},
    routes::Site,
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{PUBLISH_APPLY, PUBLISH_PLAN, PUBLISH_TAKE, PUBLISHING};
use fairway_api_types::publishing_wire::{
    PlannedSet, PlannedUpdate, PublishParameters, PublishPlan, PublishedRecord, PublisherState, PublishingState,
    TakeOrder, TakeReport,
};

/// The routes of publishing.
pub(super) fn routes() -> Vec<Route> {
    let found = &[(404, "There is no such provider."), (502, "The provider cannot be read.")];
    let plan_of = || Shape::output::<PublishPlan>().json();
    vec![
        Route::new(PUBLISHING, "listPublishers", "List the providers that records are published to, with their status")
            .description(
                "Also those that a project declares, as `PROJECT/NAME` (in paths `PROJECT%2FNAME`); with a condition for each record set.",
            )
            .requires(Verb::Observe)
            .returns(200, "The providers.", Shape::output::<PublishingState>().json())
            .handle(all),
        Route::new(PUBLISH_PLAN, "planPublishing", "Show what a sync of a provider would change")
            .requires(Verb::Observe)
            .query::<PublishParameters>()
            .returns(200, "Each change; none is made.", plan_of())
            .errors(found)
            .handle(plan),
        Route::new(PUBLISH_APPLY, "applyPublishing", "Sync a provider now")
            .description("Returns once the sync has ended.")
            .requires(Verb::Operate)
            .query::<PublishParameters>()
            .returns(200, "What was changed.", plan_of())
            .errors(found)
            .handle(apply),
        Route::new(PUBLISH_TAKE, "takePublishing", "Take record sets over from another owner, one step a call")
            .description("`announce` writes the intention to the registry, `finish` changes the owner, `abort` undoes `announce`.")
            .requires(Verb::Operate)
            .body(Shape::input::<TakeOrder>().json())
            .returns(200, "The result for each record set.", Shape::output::<TakeReport>().json())
            .errors(found)
            .errors(&[
                (400, "The body is invalid."),
                (409, "The registry of the provider is not of the type txt, or the owner is this server."),
            ])
            .handle(take),
    ]
}

async fn all(State(site): State<Site>) -> Json<PublishingState> {
    let publishers = site.control.shared().publishers.load_full();
    Json(PublishingState { providers: publishers.iter().map(shown).collect() })
}

type Parameters = Result<Query<PublishParameters>, QueryRejection>;

async fn plan(State(site): State<Site>, Path(name): Path<String>, parameters: Parameters) -> Response {
    let (publisher, deletions) = match found(&site, &name, parameters) {
        Ok(found) => found,
        Err(response) => return *response,
    };
    match publisher.draft(deletions).await {
        Ok(draft) => Json(planned(name, &draft)).into_response(),
        Err(error) => problem(StatusCode::BAD_GATEWAY, format!("{name}: {error}")),
    }
}

async fn apply(State(site): State<Site>, Path(name): Path<String>, parameters: Parameters) -> Response {
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
        let what = format!("there is no provider {name}; GET /v1/publishing lists them");
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
        status: status.word().to_owned(),
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

fn since(key: &RecordSetKey, standing: &SetStanding) -> PublishedRecord {
    let since = Some(Timestamp::from(standing.since).to_string());
    PublishedRecord { since, ..record(key, &standing.condition) }
}

fn record(key: &RecordSetKey, condition: &Condition) -> PublishedRecord {
    let reason = match condition {
        Condition::Published | Condition::Waiting | Condition::Leaving => String::new(),
        Condition::Hindered(why) => why.to_string(),
        Condition::Refused(why) => why.clone(),
    };
    PublishedRecord {
        name: key.name.to_string(),
        rtype: key.rtype.to_string(),
        set_identifier: key.set_identifier.clone(),
        status: condition.words().0.to_owned(),
        since: None,
        reason,
    }
}

fn planned(provider: String, draft: &Draft) -> PublishPlan {
    let changes = &draft.changes;
    let all: usize = draft.units.iter().map(|unit| unit.changes.len()).sum();
    let refused = |(key, why): &(RecordSetKey, fairway_providers::publish::Obstacle)| {
        record(key, &Condition::Hindered(why.clone()))
    };
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
        status: "refused".to_owned(),
        reason: why.clone(),
        ..PublishedRecord::default()
    };
    plan.refused.extend(outcome.refused.iter().map(refused));
    plan.changed = Some(outcome.changed);
    plan.error = outcome.broken.as_ref().map(ToString::to_string);
    plan
}

fn set(set: &ProviderRecordSet) -> PlannedSet {
    PlannedSet {
        name: set.set.name.to_string(),
        rtype: set.set.rtype.to_string(),
        ttl: set.set.ttl.secs(),
        set_identifier: set.set_identifier.clone(),
        properties: set.properties.clone(),
        records: set.set.rdatas.iter().map(|octets| rdata_text(set.set.rtype, octets)).collect(),
    }
}
