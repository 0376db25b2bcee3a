//! Plays a recipe on a stage and collects all errors.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    time::{Duration, Instant},
};

use fairway_zones::Transport;

use super::{
    Recipe, State, Step,
    expect::{Exchange, check},
};
use crate::{
    message::{Message, Record},
    query::Transports,
};

/// Longest time until the answers of a real server show a health transition.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// The code or server that a recipe is played on.
pub trait Stage {
    /// Sends one query and returns the answer; `None` without an answer. `Err` if the stage itself fails.
    fn exchange(
        &mut self,
        octets: &[u8],
        transport: Transport,
        from: Option<SocketAddr>,
        expect_reply: bool,
    ) -> Result<Option<Vec<u8>>, String>;

    /// Sets the health of a cluster's targets. Returns true if the stage can.
    fn set_health(&mut self, cluster: &str, state: State) -> Result<bool, String>;

    /// True if the stage can send queries from this address.
    fn can_ask_from(&self, from: SocketAddr, transport: Transport) -> bool;

    /// Waits a moment for a health transition to show; returns false if it shows at once.
    fn pause(&mut self) -> bool;
}

/// Answers of the steps so far, by number and transport.
type Seen = BTreeMap<(String, bool), Vec<Record>>;

/// Plays every step over every transport; returns each error with file, line, number and rule, and an error of both transports
/// once.
pub fn run(recipe: &Recipe, stage: &mut dyn Stage) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = Seen::new();
    let mut out_of_reach = BTreeSet::new();
    for step in &recipe.steps {
        for (cluster, state) in &step.health {
            match stage.set_health(cluster, *state) {
                Ok(true) => out_of_reach.remove(cluster),
                Ok(false) => out_of_reach.insert(cluster.clone()),
                Err(fault) => return vec![format!("{}: health {cluster}: {fault}", recipe.path.display())],
            };
        }
        if !out_of_reach.is_empty() {
            continue;
        }
        let transports: &[_] = match step.query.transports {
            Transports::Both => &[Transport::Udp, Transport::Tcp],
            Transports::Tcp => &[Transport::Tcp],
            Transports::Udp => &[Transport::Udp],
        };
        let mut reported: Vec<String> = Vec::new();
        for transport in transports {
            if step.query.from.is_some_and(|from| !stage.can_ask_from(from, *transport)) {
                continue;
            }
            let found = settle(step, *transport, stage, &mut seen);
            let news: Vec<_> = found.into_iter().filter(|fault| !reported.contains(fault)).collect();
            let place = format!("{}:{} step {} ({transport:?})", recipe.path.display(), step.line, step.id);
            faults.extend(news.iter().map(|fault| format!("{place}: {}: {fault}", step.rule)));
            reported.extend(news);
        }
    }
    faults
}

/// Repeats a step after a health transition until it passes or the time is up.
fn settle(step: &Step, transport: Transport, stage: &mut dyn Stage, seen: &mut Seen) -> Vec<String> {
    let end = Instant::now() + SETTLE_MAX;
    loop {
        let faults = play(step, transport, stage, seen);
        if faults.is_empty() || step.health.is_empty() || Instant::now() >= end || !stage.pause() {
            return faults;
        }
    }
}

fn play(step: &Step, transport: Transport, stage: &mut dyn Stage, seen: &mut Seen) -> Vec<String> {
    let sent = step.query.encode();
    let received = match stage.exchange(&sent, transport, step.query.from, !step.expect.drop) {
        Ok(received) => received,
        Err(fault) => return vec![fault],
    };
    let Some(received) = received else {
        return if step.expect.drop { vec![] } else { vec!["nothing comes back".to_owned()] };
    };
    if step.expect.drop {
        return vec![format!("{} octets come back where nothing should", received.len())];
    }
    let exchange = Exchange { query: &step.query, sent: &sent, transport, received: &received };
    let mut faults = check(&step.expect, &exchange);
    if let Ok(message) = Message::decode(&received) {
        let records: Vec<_> = message.sections[..2].concat();
        if let Some(earlier) = &step.expect.same {
            match seen.get(&(earlier.clone(), true)).or_else(|| seen.get(&(earlier.clone(), false))) {
                Some(known) if *known == records => {}
                Some(known) => faults.push(format!("{records:?} is not what step {earlier} gave: {known:?}")),
                None => faults.push(format!("there is no earlier step {earlier}")),
            }
        }
        seen.insert((step.id.clone(), transport == Transport::Tcp), records);
    }
    faults
}
