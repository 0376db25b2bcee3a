//! After the show: the visitor does things to gateways and to the configuration, and what follows is told as it happens.

use std::time::{Duration, SystemTime};

use tokio::time::{self, Instant, MissedTickBehavior};

use super::{
    acts::{Event, Show},
    remote::{Deed, Remote, Wish},
    show,
};
use crate::cli::Tone;
use fairway_api_types::state_wire::ReloadReport;

/// How long after the last change to count shares: changes come in bursts, a census a burst is enough.
const SETTLE: Duration = Duration::from_millis(300);

impl Show<'_> {
    /// Plays until it is cancelled.
    pub(super) async fn play(&mut self, mut remote: Remote, began: SystemTime) -> anyhow::Result<()> {
        let mut look = time::interval(Duration::from_millis(500));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = self.last_reload().await;
        let mut census_due: Option<Instant> = None;
        loop {
            let settled = time::sleep_until(census_due.unwrap_or_else(Instant::now));
            tokio::select! {
                events = self.events() => {
                    for event in &events {
                        self.tell_at(began, event)?;
                    }
                    census_due = Some(Instant::now() + SETTLE);
                }
                wish = remote.next() => self.fulfil(wish, began).await?,
                () = settled, if census_due.is_some() => {
                    census_due = None;
                    self.tell_shares_line(began).await?;
                }
                _ = look.tick() => {
                    let last = self.last_reload().await;
                    if last != told {
                        self.tell_reload(last.as_ref(), began)?;
                        if last.as_ref().is_some_and(|report| report.accepted) {
                            census_due = Some(Instant::now() + SETTLE);
                        }
                        told = last;
                    }
                }
            }
        }
    }

    fn tell_at(&self, began: SystemTime, event: &Event) -> anyhow::Result<()> {
        let (kind, what) = event.line();
        let when = show::clock(event.at().duration_since(began).unwrap_or_default());
        Ok(self.out.line(&show::moment(self.out.palette, &when, kind, &what))?)
    }

    fn tell_now(&self, began: SystemTime, kind: &str, what: &[(Tone, String)]) -> anyhow::Result<()> {
        let when = show::clock(began.elapsed().unwrap_or_default());
        Ok(self.out.line(&show::moment(self.out.palette, &when, kind, what))?)
    }

    /// Does what the visitor asked for and answers him.
    async fn fulfil(&mut self, wish: Wish, began: SystemTime) -> anyhow::Result<()> {
        let Wish { cluster, deed, reply } = wish;
        let word = match deed {
            Deed::Down => "goes down",
            Deed::Drain => "drains: it answers 503 to readiness",
            Deed::Up => "comes up",
        };
        let done = self.act(&cluster, deed).await;
        if done.is_ok() {
            let what = [(Tone::Strong, format!("{cluster} ")), (Tone::Plain, word.to_owned())];
            self.tell_now(began, "gateway", &what)?;
        }
        // If the visitor has gone, nobody needs the answer.
        let _ = reply.send(done.map(|_| format!("{cluster} {word}")).map_err(|why| format!("{why:#}")));
        Ok(())
    }

    async fn tell_shares_line(&mut self, began: SystemTime) -> anyhow::Result<()> {
        let line = match self.census().await {
            Ok(now) => show::shares_line(&now),
            Err(why) => why.to_string(), // the visitor may have taken the name away
        };
        self.tell_now(began, "shares", &[(Tone::Strong, "shop ".to_owned()), (Tone::Plain, line)])
    }

    async fn last_reload(&self) -> Option<ReloadReport> {
        fairway_api::state(self.stage.daemon.control()).await.ok()?.config.last_reload
    }

    fn tell_reload(&self, report: Option<&ReloadReport>, began: SystemTime) -> anyhow::Result<()> {
        let Some(report) = report else { return Ok(()) };
        let (tone, word, lines) = match report.accepted {
            true => (Tone::Good, "reloaded", &report.changes),
            false => (Tone::Bad, "refused; the old configuration serves on", &report.errors),
        };
        self.tell_now(began, "config", &[(tone, word.to_owned())])?;
        for line in lines {
            self.out.line(&format!("{:21}{line}", ""))?;
        }
        Ok(())
    }
}
