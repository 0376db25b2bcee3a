//! The signal that makes threads end.

use tokio::sync::watch;

/// State that the threads have to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serve.
    Run,
    /// Receive nothing more and leave queued queries: another process serves the same sockets. Open connections are served until they
    /// are idle.
    Leave,
    /// Answer what has arrived, then end.
    Drain,
    /// End now, even with open connections.
    End,
}

/// Receiver of the phase. The server sends it, every thread reads it.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Receiver<Phase>);

impl Stop {
    /// Returns the sender and a receiver.
    pub(super) fn new() -> (watch::Sender<Phase>, Self) {
        let (sender, receiver) = watch::channel(Phase::Run);
        (sender, Self(receiver))
    }

    /// True once the phase is no longer `Run`, or the server was dropped. Cheap enough to call once per batch.
    pub(super) fn is_requested(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// Returns the current phase; `End` if the server was dropped.
    pub(super) fn phase(&self) -> Phase {
        if self.0.has_changed().is_err() { Phase::End } else { *self.0.borrow() }
    }

    /// Waits for the next change of phase and returns the new phase.
    pub(super) async fn changed(&mut self) -> Phase {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => Phase::End,
        }
    }
}
