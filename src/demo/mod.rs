//! The demonstration: gateways of its own, an example zone, one failure and its recovery. Then the user can experiment.
//!
//! It runs the real daemon on a real configuration in a temporary folder.

mod commands;
mod dns_client;
mod envoy;
mod format;
mod gateway;
mod interactive;
mod playground;
mod script;
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
    commands::{CommandContext, Commands},
    gateway::GatewayAction,
    playground::{CLUSTERS, Playground},
    script::Demo,
};
use crate::cli::{DemoArgs, Out, Tone};

/// Time limit of a demonstration with `--once`. It takes about five seconds; the rest is for a busy machine.
const ONCE_LIMIT: Duration = Duration::from_secs(40);

/// Runs the demonstration. The exit status is 0 if everything happened as announced, or if the user ended it; else 1.
pub(crate) async fn run(options: DemoArgs, out: Out) -> anyhow::Result<ExitCode> {
    out.line(
        &out.palette.paint(Tone::Strong, "fairway demo: one name server and three clusters, all on this machine"),
    )?;
    let start = SystemTime::now();
    let playground = tokio::select! {
        playground = Playground::start(options.envoy, options.port) => playground?,
        ended = interrupted() => return ended.map(|()| ExitCode::SUCCESS).context("cannot wait for signals"),
    };
    let result = tokio::select! {
        failures = run_script(&playground, &options, out, start) => failures,
        () = time::sleep(ONCE_LIMIT), if options.once => Ok(vec![format!("the demo took longer than {ONCE_LIMIT:?}")]),
        ended = interrupted() => ended.map(|()| Vec::new()).context("cannot wait for signals"),
    };
    playground.stop().await;
    let failures = result?;
    if failures.is_empty() {
        out.line(&format!("\n{} Nothing is left behind.", text::closing(out.palette, options.once)))?;
        return Ok(ExitCode::SUCCESS);
    }
    for failure in failures {
        eprintln!("fairway: {failure}; run it again on a quieter machine, or report it with the output above");
    }
    Ok(ExitCode::FAILURE)
}

/// Returns when the user ends the demo: by Ctrl-C, SIGTERM, or by closing the terminal.
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

/// Runs the script, then shows what the user does. Returns what was announced and did not happen.
async fn run_script(
    playground: &Playground,
    options: &DemoArgs,
    out: Out,
    start: SystemTime,
) -> anyhow::Result<Vec<String>> {
    // Time to read between the steps. Nobody reads with `--once`.
    let pause = Duration::from_millis(if options.once { 100 } else { 1_500 });
    let palette = out.palette;
    out.print(&text::overview(palette, playground))?;
    let [eu1, us1, ap1] = CLUSTERS;
    let mut demo = Demo::start(playground, out).await?;

    out.print(&text::heading(palette, "1", "Every gateway is up: clients are shared by weight"))?;
    let all_up = demo.print_shares(&CLUSTERS, None).await?;
    out.line(&text::about_clients(palette))?;
    time::sleep(pause).await;

    out.line(&text::heading(palette, "2", &text::failure(options.envoy)))?;
    demo.run_step(eu1, GatewayAction::Down).await?;
    let without_eu1 = demo.print_shares(&[us1, ap1], Some(&all_up)).await?;
    demo.print_moves(&all_up, &without_eu1, eu1)?;
    time::sleep(pause).await;

    out.line(&text::heading(palette, "3", "The gateway of eu1 recovers"))?;
    demo.run_step(eu1, GatewayAction::Up).await?;
    let recovered = demo.print_shares(&CLUSTERS, Some(&without_eu1)).await?;
    if recovered != all_up {
        demo.failures.push("not all clients returned to their previous cluster".to_owned());
    }
    if options.once {
        return Ok(demo.failures);
    }
    let context = CommandContext { gateways: demo.playground.gateways.clone(), out, start };
    let commands = Commands::listen(context).await.context("no free port for the commands of the user")?;
    out.print(&text::your_turn(palette, demo.playground, commands.address, &recovered))?;
    demo.watch_slowly(&recovered).await?;
    demo.interact(start).await?;
    Ok(demo.failures)
}
