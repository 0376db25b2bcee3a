//! After the script: prints the effects of the user's commands and of a changed configuration.

use std::time::{Duration, SystemTime};

use tokio::time::{self, Instant, MissedTickBehavior};

use super::{format, script::Demo};
use crate::cli::Tone;
use fairway_api_types::state_wire::ReloadReport;

/// Time from the last change until shares are measured. Changes come in bursts, and one measurement per burst is enough.
const SETTLE: Duration = Duration::from_millis(300);
/// Period of the check for a reload.
const RELOAD_CHECK: Duration = Duration::from_millis(500);

impl Demo<'_> {
    /// Runs until it is cancelled.
    pub(super) async fn interact(&mut self, start: SystemTime) -> anyhow::Result<()> {
        let mut check = time::interval(RELOAD_CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_reload = self.last_reload().await;
        let mut measure_at: Option<Instant> = None;
        loop {
            let settled = time::sleep_until(measure_at.unwrap_or_else(Instant::now));
            tokio::select! {
                events = self.events() => {
                    for event in &events {
                        let when = format::clock(event.at().duration_since(start).unwrap_or_default());
                        let (kind, content) = event.line();
                        self.print(&when, kind, &content)?;
                    }
                    measure_at = Some(Instant::now() + SETTLE);
                }
                () = settled, if measure_at.is_some() => {
                    measure_at = None;
                    self.print_shares_line(start).await?;
                }
                _ = check.tick() => {
                    let reload = self.last_reload().await;
                    if reload != last_reload {
                        self.print_reload(reload.as_ref(), start)?;
                        if reload.as_ref().is_some_and(|report| report.accepted) {
                            measure_at = Some(Instant::now() + SETTLE);
                        }
                        last_reload = reload;
                    }
                }
            }
        }
    }

    fn print_now(&self, start: SystemTime, kind: &str, content: &[(Tone, String)]) -> anyhow::Result<()> {
        self.print(&format::clock(start.elapsed().unwrap_or_default()), kind, content)
    }

    async fn print_shares_line(&mut self, start: SystemTime) -> anyhow::Result<()> {
        let line = match self.measure_shares().await {
            Ok(now) => format::shares_line(&now),
            Err(error) => error.to_string(), // the user may have removed the name
        };
        self.print_now(start, "shares", &[(Tone::Strong, "shop ".to_owned()), (Tone::Plain, line)])
    }

    async fn last_reload(&self) -> Option<ReloadReport> {
        fairway_api::state(self.playground.daemon.control()).await.ok()?.config.last_reload
    }

    fn print_reload(&self, report: Option<&ReloadReport>, start: SystemTime) -> anyhow::Result<()> {
        let Some(report) = report else { return Ok(()) };
        let (tone, result, lines) = if report.accepted {
            (Tone::Good, "reloaded", &report.changes)
        } else {
            (Tone::Bad, "rejected; the previous configuration stays in use", &report.errors)
        };
        self.print_now(start, "config", &[(tone, result.to_owned())])?;
        for line in lines {
            self.out.line(&format!("{:21}{line}", ""))?;
        }
        Ok(())
    }
}
