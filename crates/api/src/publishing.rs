//! `/v1/publishing`: status of the providers, the plan of a sync, and a sync now.

use std::time::SystemTime;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
};
use fairway_model::{ProviderRecordSet, Timestamp};
use fairway_providers::publish::{Condition, Draft, Outcome, ProviderError, Publisher};
use fairway_zonefile::rdata_text;

use crate::{
    handover::{self, publisher, record},
    problem::{ApiError, bad_request, problem},
    render::texts,
    route::{Route, Shape},
    state::{AppState, Parameters},
};
use fairway_access::Verb;
use fairway_api_types::endpoints::{PUBLISH_APPLY, PUBLISH_PLAN, PUBLISH_TAKE, PUBLISHING};
use fairway_api_types::publishing_wire::{
    PlannedSet, PlannedUpdate, PublishParameters, PublishPlan, PublishedRecord, PublisherState, PublishingState,
    SyncParameters, TakeOrder, TakeReport,
};

/// The routes of publishing.
pub(crate) fn routes() -> Vec<Route> {
    let errors = &[(404, "There is no such provider."), (502, "The provider cannot be read.")];
    let plan_of = || Shape::output::<PublishPlan>().json();
    vec![
        Route::new(PUBLISHING, "listPublishers", "List the providers that records are published to, with their status")
            .description(
                "Also those that a project declares, as `PROJECT/NAME` (in paths `PROJECT%2FNAME`); with a condition for each record set.",
            )
            .requires(Verb::Observe)
            .returns(200, "The providers.", Shape::output::<PublishingState>().json())
            .handle(list),
        Route::new(PUBLISH_PLAN, "planPublishing", "Show what a sync of a provider would change")
            .requires(Verb::Observe)
            // It reads the zones of the provider.
            .has_effect()
            .query::<PublishParameters>()
            .returns(200, "Each change; none is made.", plan_of())
            .errors(errors)
            .handle(plan),
        Route::new(PUBLISH_APPLY, "applyPublishing", "Sync a provider now")
            .description("Returns once the sync has ended.")
            .requires(Verb::Operate)
            .query::<SyncParameters>()
            .returns(200, "The changes.", plan_of())
            .errors(errors)
            .errors(&[(400, "`plan` is not the id of a plan."), (409, "The plan is outdated, or another server publishes; nothing was changed.")])
            .handle(apply),
        Route::new(PUBLISH_TAKE, "takePublishing", "Take record sets over from another owner, one step per call")
            .description("`announce` writes the intention to the registry, `finish` changes the owner, `abort` undoes `announce`.")
            .requires(Verb::Operate)
            .body(Shape::input::<TakeOrder>().json())
            .returns(200, "The result for each record set.", Shape::output::<TakeReport>().json())
            .errors(errors)
            .errors(&[
                (400, "The body is invalid."),
                (409, "The registry of the provider is not of the type txt, or the owner is this server."),
            ])
            .handle(handover::take),
    ]
}

async fn list(State(state): State<AppState>) -> Json<PublishingState> {
    let publishers = state.control.shared().publishers.load_full();
    Json(PublishingState { providers: publishers.all().map(publisher_state).collect() })
}

async fn plan(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Parameters(PublishParameters { deletions }): Parameters<PublishParameters>,
) -> Result<Json<PublishPlan>, ApiError> {
    let draft = publisher(&state, &name)?.draft(deletions).await;
    let draft = draft.map_err(|error| problem(StatusCode::BAD_GATEWAY, format!("{name}: {error}")))?;
    Ok(Json(planned(name, &draft)))
}

async fn apply(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Parameters(SyncParameters { deletions, plan }): Parameters<SyncParameters>,
) -> Result<Json<PublishPlan>, ApiError> {
    let publisher = publisher(&state, &name)?;
    let plan = plan.map(|id| id.parse()).transpose().map_err(|error| bad_request(format!("plan: {error}")))?;
    let outcome = match plan {
        Some(plan) => publisher.apply_plan(deletions, plan).await,
        None => publisher.apply(deletions).await,
    };
    let outcome = outcome.map_err(|error| {
        let is_refused = matches!(error, ProviderError::OutdatedPlan | ProviderError::Standby(_));
        let status = if is_refused { StatusCode::CONFLICT } else { StatusCode::BAD_GATEWAY };
        problem(status, format!("{name}: {error}"))
    })?;
    Ok(Json(applied(name, &outcome)))
}

fn publisher_state(publisher: &Publisher) -> PublisherState {
    let (setup, status) = (publisher.setup(), publisher.status());
    let time = |at: Option<SystemTime>| at.map(|at| Timestamp::from(at).to_string());
    let lag = status.behind_since.and_then(|since| SystemTime::now().duration_since(since).ok());
    PublisherState {
        name: setup.name.clone(),
        zones: texts(&setup.rules.zones),
        auto: setup.auto,
        status: <&str>::from(status.state()).to_owned(),
        behind_since: time(status.behind_since),
        synced_at: time(status.synced_at),
        succeeded_at: time(status.succeeded_at),
        next_sync_at: time(status.due_at),
        lag_secs: lag.map_or(0, |lag| lag.as_secs()),
        standby: status.standby.clone(),
        error: status.error.clone(),
        failures: status.failures,
        owned: status.owned,
        foreign: status.foreign,
        changed: status.counts.changed,
        drifted: status.counts.drifted,
        records: status
            .conditions
            .iter()
            .map(|(key, set)| {
                let reason = match &set.condition {
                    Condition::Published | Condition::Waiting | Condition::Leaving => String::new(),
                    Condition::Hindered(why) => why.to_string(),
                    Condition::Refused(why) => why.clone(),
                };
                let since = Some(Timestamp::from(set.since).to_string());
                PublishedRecord { since, ..record(key, set.condition.words().0, reason) }
            })
            .collect(),
    }
}

fn planned(provider: String, draft: &Draft) -> PublishPlan {
    let changes = &draft.changes;
    let all: usize = draft.units.iter().map(|unit| unit.changes.len()).sum();
    PublishPlan {
        provider,
        id: draft.id().to_string(),
        create: changes.create.iter().map(planned_set).collect(),
        update: changes
            .update
            .iter()
            .map(|u| PlannedUpdate { from: planned_set(&u.from), to: planned_set(&u.to) })
            .collect(),
        delete: changes.delete.iter().map(planned_set).collect(),
        kept: draft.kept.len(),
        foreign: draft.foreign,
        registry: all.saturating_sub(changes.len()),
        refused: draft.refused.iter().map(|(key, why)| record(key, "refused", why.to_string())).collect(),
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
    plan.refused.extend(outcome.applied.refused.iter().map(refused));
    plan.changed = Some(outcome.applied.sets);
    plan.error = outcome.applied.broken.as_ref().map(ToString::to_string);
    plan
}

fn planned_set(set: &ProviderRecordSet) -> PlannedSet {
    PlannedSet {
        name: set.set.name.to_string(),
        rtype: set.set.rtype.to_string(),
        ttl: set.set.ttl.secs(),
        set_identifier: set.set_identifier.clone(),
        properties: set.properties.clone(),
        records: set.set.rdatas.iter().map(|rdata| rdata_text(set.set.rtype, rdata)).collect(),
    }
}
