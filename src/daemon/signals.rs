//! Signals: SIGTERM and SIGINT stop the daemon, SIGHUP reloads it.

use std::io;

use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinHandle,
};

use fairway_control::{
    Control, Stopping,
    reloads::{ReloadScope, Trigger},
};

/// Handles signals until the task is aborted.
pub(crate) fn listen(control: &Control) -> io::Result<JoinHandle<()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let control = control.clone();
    Ok(tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => control.stop_for(Stopping::Signal),
                _ = interrupt.recv() => control.stop_for(Stopping::Signal),
                _ = hang_up.recv() => {
                    control.shared.lifecycle.hang_ups.send_modify(|count| *count += 1);
                    control.request_reload(ReloadScope::Files, Trigger::Signal).await;
                }
            }
        }
    }))
}
