//! How the threads are told to end.

use tokio::sync::watch;

/// What the threads are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serve.
    Run,
    /// Take nothing more and leave what is queued: another process serves the same sockets. Connections that are open are
    /// served until they are idle.
    Leave,
    /// Answer what has arrived, then end.
    Drain,
    /// End now, whatever is open.
    End,
}

/// Read by all threads, written by the server.
#[derive(Clone, Debug)]
pub(super) struct Stop(watch::Receiver<Phase>);

impl Stop {
    /// A switch and what reads it.
    pub(super) fn new() -> (watch::Sender<Phase>, Self) {
        let (sender, receiver) = watch::channel(Phase::Run);
        (sender, Self(receiver))
    }

    /// Whether anything but serving is asked for; cheap enough for once a batch. Ends too when the server is dropped.
    pub(super) fn asked(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// What is asked for now; a dropped server asks for the end.
    pub(super) fn phase(&self) -> Phase {
        if self.0.has_changed().is_err() { Phase::End } else { *self.0.borrow() }
    }

    /// Waits for the next change of phase and tells the new one.
    pub(super) async fn changed(&mut self) -> Phase {
        match self.0.changed().await {
            Ok(()) => *self.0.borrow_and_update(),
            Err(_) => Phase::End,
        }
    }
}
