//! Log of limited responses.

use std::{sync::Arc, time::Duration};

use fairway_control::Shared;
use fairway_zones::{LimitAction, LimitCounts};
use tokio::time::{MissedTickBehavior, interval};

/// Time until a network over a limit is logged.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// Time between two lines: a flood must not fill the log.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// Logs that responses were limited, with one of the networks, once per minute at most. Runs until it is dropped.
pub(super) async fn log_limited_responses(shared: Arc<Shared>) {
    let mut logged = LimitCounts::default();
    let mut checks = interval(CHECK_PERIOD);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        checks.tick().await;
        let tallies = shared.queries.by_thread();
        let mut counts = LimitCounts::default();
        tallies.iter().for_each(|tally| tally.add_limits_to(&mut counts));
        let since = |action| counts.of(action).saturating_sub(logged.of(action));
        let (dropped, truncated) = (since(LimitAction::Drop), since(LimitAction::Truncate));
        if dropped + truncated == 0 {
            continue;
        }
        let state = shared.serving.load();
        let snapshot = &state.as_ref().as_ref().snapshot;
        let network = tallies.iter().filter_map(|tally| tally.take_limited_network(snapshot)).reduce(|_, next| next);
        let network = network.map_or_else(|| "unknown".to_owned(), |network| network.to_string());
        tracing::warn!(dropped, truncated, network, "responses rate limited");
        logged = counts;
        checks.reset_after(LOG_PERIOD);
    }
}
