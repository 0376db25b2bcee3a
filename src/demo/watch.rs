//! Watches the server's answers as clients see them: asks again and again over UDP, and tells each change with its moment.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, SystemTime},
};

use fairway_model::Name;
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{self, MissedTickBehavior},
};

use super::asker::{Answer, Asker};

/// One name as one client network asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    /// The name.
    pub(super) name: Name,
    /// The client network.
    pub(super) client: Ipv4Addr,
    /// What it is answered now.
    pub(super) answer: Answer,
}

/// An answer that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Name and client, with the new answer.
    pub(super) now: Watched,
    /// The answer before.
    pub(super) from: Answer,
    /// When the first new answer came.
    pub(super) at: SystemTime,
}

/// The watching task; dropping it ends it.
#[derive(Debug)]
pub(super) struct Watch {
    changes: mpsc::Receiver<Change>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch {
    /// Asks the server for everything watched each `every`, one after the other. A server that answers nothing or an error
    /// counts as no address.
    pub(super) async fn start(server: SocketAddr, watched: Vec<Watched>, every: Duration) -> std::io::Result<Self> {
        let mut asker = Asker::new(server).await?;
        // When nobody reads, asking waits: nothing is lost, and nothing piles up.
        let (sender, changes) = mpsc::channel(64);
        let task = tokio::spawn(async move {
            let mut watched = watched;
            let mut tick = time::interval(every);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                for one in &mut watched {
                    let answer = asker.ask(&one.name, one.client).await.ok().flatten();
                    if answer == one.answer {
                        continue;
                    }
                    let from = std::mem::replace(&mut one.answer, answer);
                    if sender.send(Change { now: one.clone(), from, at: SystemTime::now() }).await.is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Self { changes, task })
    }

    /// The next change; waits for ever if there is none. Safe to cancel.
    pub(super) async fn next(&mut self) -> Change {
        match self.changes.recv().await {
            Some(change) => change,
            None => std::future::pending().await, // only at the end: the task lives as long as we do
        }
    }
}
