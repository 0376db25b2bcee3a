//! The change log over the API: `GET /v1/events`, and explanations of the past.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, time::SystemTime};

use axum::{Json, extract, http::StatusCode};
use fairway_access::Verb;
use fairway_api_types::{
    endpoints::EVENTS,
    explain_wire::Explanation,
    history_wire::{self, EventParameters, PastState, TimelineEvent},
};
use fairway_control::Control;
use fairway_history::{EventRange, Exactness, Past, PastError, PastStates, events, files, micros, moment};
use fairway_model::{Name, Network, Rtype, Timestamp};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::{
    explain::{TargetNote, explanation},
    problem::{ApiError, bad_request, problem},
    route::{Route, Shape},
    state::{AppState, Parameters},
};

/// The routes of the change log.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(EVENTS, "listEvents", "List events of the change log")
            .description(
                "Everything that changed answers, in order of time: health, overrides, changes of the configuration, over the API, by the \
                 webhook and of Kubernetes clusters, schedules, load control, publishing and held withdrawals. The log is kept over \
                 restarts, within `history.bytes`.",
            )
            .requires(Verb::Observe)
            .query::<EventParameters>()
            .returns(200, "The events, oldest first.", Shape::output::<history_wire::Timeline>().json())
            .errors(&[(400, "A time, a kind or the limit is invalid."), (404, "There is no change log, since the server has no data folder.")])
            .handle(list),
    ]
}

async fn list(
    extract::State(state): extract::State<AppState>,
    Parameters(query): Parameters<EventParameters>,
) -> Result<Json<history_wire::Timeline>, ApiError> {
    let folder = folder(&state.control)?;
    let shows_clients = state.control.shared().serving.published().configured.settings.history.clients;
    let filter = Filter::new(&query)?;
    let read = move || {
        let begins = files(&folder)?.first().map(|file| moment(file.begin).to_string());
        let choose = |id, content: &[u8]| filter.choose(id, content, shows_clients);
        Ok::<_, std::io::Error>(history_wire::Timeline { begins, events: events(&folder, filter.range, choose)? })
    };
    let events = in_turn(read).await?.map_err(PastError::from)?;
    Ok(Json(events))
}

/// The events to return.
struct Filter {
    range: EventRange,
    kinds: Vec<String>,
    /// In lower case.
    contains: Option<String>,
}

impl Filter {
    fn new(query: &EventParameters) -> Result<Self, ApiError> {
        let time = |name: &str, text: &Option<String>| {
            let time = text.as_deref().map(str::parse::<Timestamp>).transpose();
            time.map_err(|error| bad_request(format!("{name}: {error}"))).map(|time| time.map(micros))
        };
        let since = time("since", &query.since)?.unwrap_or(0);
        let until = time("until", &query.until)?.unwrap_or(u64::MAX);
        let limit = usize::from(query.limit.unwrap_or(LIMIT));
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(bad_request(format!("limit: {limit} is out of range; give 1 to {LIMIT_MAX}")));
        }
        let kinds: Vec<String> = query.event.iter().flat_map(|kinds| kinds.split(',')).map(str::to_owned).collect();
        if let Some(unknown) = kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(bad_request(format!(
                "event: {unknown:?} is no kind of event; take one of {}",
                KINDS.join(", ")
            )));
        }
        let since = query.after.map_or(since, |after| since.max(after.saturating_add(1)));
        let range = EventRange { since, until, limit, newest: query.after.is_none() };
        Ok(Self { range, kinds, contains: query.contains.as_ref().map(|text| text.to_lowercase()) })
    }

    fn choose(&self, id: u64, content: &[u8], shows_clients: bool) -> Option<TimelineEvent> {
        let Ok(Value::Object(mut object)) = serde_json::from_slice(content) else { return None };
        let mut text = |name: &str| object.remove(name).and_then(|value| Some(value.as_str()?.to_owned()));
        let (event, level, message, trace) = (text("event")?, text("level")?, text("msg")?, text("trace"));
        if !self.kinds.is_empty() && !self.kinds.contains(&event) {
            return None;
        }
        show_network(&mut object, shows_clients);
        let fields: BTreeMap<String, Value> = object.into_iter().collect();
        if let Some(wanted) = &self.contains {
            let is_in = |text: &str| text.to_lowercase().contains(wanted);
            let in_field = |value: &Value| value.as_str().map_or_else(|| is_in(&value.to_string()), is_in);
            if !is_in(&message) && !fields.values().any(in_field) {
                return None;
            }
        }
        Some(TimelineEvent { id, time: moment(id).to_string(), event, level, message, trace, fields })
    }
}

/// Replaces the address of a client by its network, or leaves it out.
fn show_network(object: &mut Map<String, Value>, shows_clients: bool) {
    let Some(address) = object.get("remote").and_then(|remote| remote.as_str()?.parse::<IpAddr>().ok()) else { return };
    if shows_clients {
        let length = if address.is_ipv4() { 24 } else { 56 };
        object.insert("remote".to_owned(), Network::of(address, length).to_string().into());
    } else {
        object.remove("remote");
    }
}

/// Explains the answer that a client got at a time.
pub(crate) async fn explain_past(
    control: &Control,
    (name, rtype, client): (Name, Rtype, Option<Network>),
    at: &str,
) -> Result<Explanation, ApiError> {
    let at: Timestamp = at.parse().map_err(|error| bad_request(format!("at: {error}")))?;
    if at > SystemTime::now().into() {
        return Err(bad_request("at: the time is in the future; leave it out for the answer of now".to_owned()));
    }
    let folder = folder(control)?;
    let now = control.shared().serving.load();
    let explain = move || {
        let mut states = PastStates::open(&folder, at)?;
        states.go_to(at)?;
        let past = states.compile(&now.serving.snapshot, &now.published.configured.merged.desired)?;
        let explained = fairway_zones::explain(&past.serving, &name, rtype, client);
        let mut explanation = explanation(&explained, true, &|_, _, _| TargetNote::default());
        explanation.at = Some(past_state(at, &past));
        Ok::<_, PastError>(explanation)
    };
    Ok(in_turn(explain).await??)
}

fn past_state(at: Timestamp, past: &Past) -> PastState {
    let inexact = match past.exactness {
        Exactness::Exact => None,
        Exactness::OtherZoneFiles => Some("zone files have changed since; their records here are those of now"),
        Exactness::Other => Some(
            "not all of the state of then is kept: location maps, latency tables or the program have changed since",
        ),
    };
    let left_out = (past.skipped > 0).then(|| {
        format!("the log left out {} states after this one, one of which may have been served then", past.skipped)
    });
    let note = inexact.map(str::to_owned).or(left_out);
    PastState { time: at.to_string(), since: past.since.to_string(), exact: note.is_none(), note }
}

fn folder(control: &Control) -> Result<PathBuf, ApiError> {
    let folder = control.shared().serving.history().folder();
    folder.map(ToOwned::to_owned).ok_or_else(|| {
        problem(
            StatusCode::NOT_FOUND,
            "there is no change log; start fairway with a data folder (--data-dir)".to_owned(),
        )
    })
}

/// Runs one reader of the log at a time: it may compile a configuration, or read 256 MB.
async fn in_turn<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    static TURN: Semaphore = Semaphore::const_new(1);
    // The semaphore is never closed.
    let _turn = TURN.acquire().await;
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|_| problem(StatusCode::INTERNAL_SERVER_ERROR, "reading the change log ended early".to_owned()))
}

impl From<PastError> for ApiError {
    fn from(error: PastError) -> Self {
        let status = match error {
            PastError::NotKept { .. } => StatusCode::NOT_FOUND,
            PastError::Format | PastError::Compile(_) => StatusCode::CONFLICT,
            PastError::Damaged(_) | PastError::Read(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        problem(status, error.to_string())
    }
}

/// Kinds of events.
const KINDS: [&str; 11] = [
    "process",
    "health",
    "override",
    "configuration",
    "change",
    "api",
    "schedule",
    "load",
    "publishing",
    "hold",
    "kubernetes",
];
/// Number of events without a limit.
const LIMIT: u16 = 100;
const LIMIT_MAX: usize = 1_000;
