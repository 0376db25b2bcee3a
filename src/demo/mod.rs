//! A playground: gateways of its own, an example zone, one failure and its repair, and then the visitor's turn.
//!
//! It runs the daemon's own code on a real configuration in a temporary folder. It proves nothing that tests do not; it shows.

mod acts;
mod asker;
mod envoy;
mod gateway;
mod play;
mod remote;
mod show;
mod stage;
mod text;
mod watch;

use std::{
    io,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use tokio::{
    signal::unix::{SignalKind, signal},
    time,
};

use self::{
    acts::Show,
    remote::{Deed, Remote},
    stage::{CLUSTERS, Stage},
};
use crate::cli::{Out, Tone};

/// Longest show that ends by itself. It takes some five seconds; the rest is for a busy machine.
const ONCE_LIMIT: Duration = Duration::from_secs(40);

/// What the visitor wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Real Envoys as gateways.
    pub(crate) envoy: bool,
    /// To end after the show.
    pub(crate) once: bool,
    /// Port of the name server.
    pub(crate) port: Option<u16>,
}

/// Runs the demo to its end: 0 if all that was announced happened, or the visitor ended it; else 1.
pub(crate) async fn run(wanted: Wanted, out: Out) -> anyhow::Result<ExitCode> {
    out.line(
        &out.palette.paint(Tone::Strong, "fairway demo: one name server and three clusters, all on this machine"),
    )?;
    let began = SystemTime::now();
    let mut stage = tokio::select! {
        stage = Stage::set(wanted.envoy, wanted.port) => stage?,
        ended = interrupted() => return ended.map(|()| ExitCode::SUCCESS).context("signals cannot be waited for"),
    };
    let end = tokio::select! {
        shown = perform(&mut stage, wanted, out, began) => shown,
        () = time::sleep(ONCE_LIMIT), if wanted.once => Ok(vec![format!("the show took longer than {ONCE_LIMIT:?}")]),
        ended = interrupted() => ended.map(|()| Vec::new()).context("signals cannot be waited for"),
    };
    stage.end().await;
    let broken = end?;
    if broken.is_empty() {
        out.line(&format!("\n{} Nothing is left behind.", text::closing(out.palette, wanted.once)))?;
        return Ok(ExitCode::SUCCESS);
    }
    for fault in broken {
        eprintln!("fairway: {fault}; run it again on a quieter machine, or report it with the output above");
    }
    Ok(ExitCode::FAILURE)
}

/// Returns when the visitor ends the demo: Ctrl-C, SIGTERM, or his terminal goes away.
async fn interrupted() -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

/// The show, and then the visitor's turn; returns what was announced and did not happen.
async fn perform(stage: &mut Stage, wanted: Wanted, out: Out, began: SystemTime) -> anyhow::Result<Vec<String>> {
    // Time to read between the acts; a machine that checks the demo needs none.
    let breath = Duration::from_millis(if wanted.once { 100 } else { 1_500 });
    let palette = out.palette;
    out.print(&text::setting(palette, stage))?;
    let [eu1, us1, ap1] = CLUSTERS;
    let (mut show, _) = Show::begin(stage, out).await?;

    out.print(&text::heading(palette, "1", "Every gateway is up: clients are shared by weight"))?;
    let whole = show.tell_shares(&CLUSTERS, None).await?;
    out.line(&text::about_clients(palette))?;
    time::sleep(breath).await;

    out.line(&text::heading(palette, "2", &text::death(wanted.envoy)))?;
    show.perform(eu1, Deed::Down).await?;
    let without = show.tell_shares(&[us1, ap1], Some(&whole)).await?;
    show.tell_moves(&whole, &without, eu1)?;
    time::sleep(breath).await;

    out.line(&text::heading(palette, "3", "The gateway of eu1 comes back"))?;
    show.perform(eu1, Deed::Up).await?;
    let again = show.tell_shares(&CLUSTERS, Some(&without)).await?;
    if again != whole {
        show.broken.push("clients did not all return to the cluster they had before".to_owned());
    }
    if wanted.once {
        return Ok(show.broken);
    }
    let remote = Remote::listen().await.context("no port for the visitor's commands")?;
    out.print(&text::your_turn(palette, show.stage, remote.at, &again))?;
    show.relax(&again).await?;
    show.play(remote, began).await?;
    Ok(show.broken)
}
