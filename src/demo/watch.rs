//! Watches the answers of the server as clients see them: queries repeatedly over UDP, and reports each change with its time.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use fairway_model::Name;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{self, MissedTickBehavior},
};

use super::dns_client::{Answer, DnsClient};

/// A name and a client network that is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    /// The name.
    pub(super) name: Name,
    /// The client network.
    pub(super) client: Ipv4Addr,
    /// The last answer.
    pub(super) answer: Answer,
}

/// A changed answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerChange {
    /// Name and client, with the new answer.
    pub(super) now: Watched,
    /// The answer before.
    pub(super) from: Answer,
    /// Arrival of the first new answer.
    pub(super) at: SystemTime,
}

/// A task that watches answers. Dropping it ends the task.
#[derive(Debug)]
pub(super) struct Watch {
    changes: mpsc::Receiver<AnswerChange>,
    _task: JoinSet<()>,
}

impl Watch {
    /// Sends every watched query to the server each `period`, one after the other. An error, or no answer, counts as no address.
    pub(super) async fn start(
        server: SocketAddr,
        mut watched: Vec<Watched>,
        period: Duration,
    ) -> std::io::Result<Self> {
        let mut client = DnsClient::new(server).await?;
        // If nobody receives the changes, the task waits: no change is lost, and the queue stays bounded.
        let (sender, changes) = mpsc::channel(64);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut tick = time::interval(period);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                for query in &mut watched {
                    let answer = client.ask(&query.name, query.client).await.ok().flatten();
                    if answer == query.answer {
                        continue;
                    }
                    let from = std::mem::replace(&mut query.answer, answer);
                    if sender.send(AnswerChange { now: query.clone(), from, at: SystemTime::now() }).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Self { changes, _task: task })
    }

    /// Waits for the next change. Cancel-safe.
    pub(super) async fn next(&mut self) -> AnswerChange {
        match self.changes.recv().await {
            Some(change) => change,
            None => std::future::pending().await, // never: the task lives as long as this value
        }
    }
}
