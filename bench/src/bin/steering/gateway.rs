//! Fake gateways: each answers probes, and tells how many requests are in flight in Prometheus' text, as an Envoy does.
//!
//! What is shown is what the gateway carried some time ago: `late` of the scenario. The server does not know how long ago.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fairway_whatif::simulate::{Chance, scenario::Reports};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

/// State of a gateway that the scenario sets.
#[derive(Debug)]
pub(crate) struct Mood {
    /// True if it serves; else connections are closed at once.
    pub(crate) serves: bool,
    /// Neither probes nor readings of the server reach it.
    pub(crate) cut_off: bool,
    /// It does not tell its load.
    pub(crate) silent: bool,
    /// It says that nothing is in flight.
    pub(crate) lies: bool,
    /// Load that it carried, in the unit of its capacity, the latest last.
    carried: VecDeque<(Instant, f64)>,
    reports: Reports,
    chance: Chance,
}

impl Mood {
    /// Notes what it carries now.
    pub(crate) fn carries(&mut self, carried: f64, now: Instant) {
        self.carried.push_back((now, carried.max(0.0)));
        // The second one is old enough to be shown: the first is not needed any more.
        while self.carried.get(1).is_some_and(|(at, _)| *at + self.reports.late <= now) {
            self.carried.pop_front();
        }
    }

    fn page(&mut self, now: Instant) -> Option<String> {
        let is_lost = self.chance.part() < self.reports.loss;
        if self.silent || is_lost {
            return None;
        }
        let error = 1.0 + self.reports.noise * (2.0 * self.chance.part() - 1.0);
        let old = |(at, _): &&(Instant, f64)| *at + self.reports.late <= now;
        let carried = self.carried.iter().rfind(old).map_or(0.0, |(_, carried)| *carried);
        let shown = if self.lies { 0.0 } else { (carried * error).round() };
        Some(format!("envoy_http_downstream_rq_active{{envoy_http_conn_manager_prefix=\"ingress\"}} {shown}\n"))
    }

    /// Returns its answer to a request; `None` if it is down.
    fn answer(&mut self, request: &[u8], now: Instant) -> Option<String> {
        if !self.serves || self.cut_off {
            return None;
        }
        let body = if request.starts_with(b"GET /stats") { self.page(now)? } else { "ok".to_owned() };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length:";
        Some(format!("{head} {}\r\n\r\n{body}", body.len()))
    }
}

/// A gateway on a port of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Its port on 127.0.0.1.
    pub(crate) port: u16,
    mood: Arc<Mutex<Mood>>,
    listens: JoinHandle<()>,
}

impl Gateway {
    pub(crate) async fn start(reports: &Reports, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let mood = Mood {
            serves: true,
            cut_off: false,
            silent: false,
            lies: false,
            carried: VecDeque::new(),
            reports: reports.clone(),
            chance: Chance::new(seed),
        };
        let mood = Arc::new(Mutex::new(mood));
        let seen = Arc::clone(&mood);
        let listens = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&seen)))),
                    // No file descriptor is left, say: others will be closed.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Ok(Self { port, mood, listens })
    }

    /// Returns the state that the scenario set.
    pub(crate) fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

async fn serve(mut stream: TcpStream, mood: Arc<Mutex<Mood>>) {
    let mut request = [0; 2048];
    let Ok(Ok(length @ 1..)) = timeout(Duration::from_secs(1), stream.read(&mut request)).await else { return };
    let answer = mood.lock().unwrap_or_else(PoisonError::into_inner).answer(&request[..length], Instant::now());
    if let Some(answer) = answer {
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mood(noise: f64) -> Mood {
        let reports =
            Reports { every: Duration::from_secs(1), late: Duration::from_secs(1), noise, loss: 0.0, sample: 1 };
        let (carried, chance) = (VecDeque::new(), Chance::new(1));
        Mood { serves: true, cut_off: false, silent: false, lies: false, carried, reports, chance }
    }

    fn shown(mood: &mut Mood, now: Instant) -> Option<f64> {
        let answer = mood.answer(b"GET /stats/prometheus HTTP/1.1\r\n\r\n", now)?;
        answer.trim_end().rsplit(' ').next()?.parse().ok()
    }

    #[test]
    fn what_is_shown_is_as_old_as_reports_are_late() {
        let (mut mood, start) = (mood(0.0), Instant::now());
        for tenth in 0..30u32 {
            mood.carries(f64::from(tenth), start + Duration::from_millis(100) * tenth);
        }
        assert_eq!(shown(&mut mood, start + Duration::from_millis(2_950)), Some(19.0));
        assert!(mood.carried.len() < 13, "what nobody is shown any more is forgotten");
    }

    #[test]
    fn one_that_lies_is_silent_or_is_away_says_so() {
        let (mut mood, now) = (mood(0.2), Instant::now());
        mood.carries(1000.0, now - Duration::from_secs(2));
        let reported = shown(&mut mood, now).unwrap();
        assert!((800.0..=1200.0).contains(&reported) && reported != 1000.0, "{reported}");
        mood.lies = true;
        assert_eq!(shown(&mut mood, now), Some(0.0));
        mood.silent = true;
        assert_eq!(shown(&mut mood, now), None);
        assert!(mood.answer(b"GET /ready HTTP/1.1\r\n\r\n", now).is_some(), "probes pass");
        mood.cut_off = true;
        assert_eq!(mood.answer(b"GET /ready HTTP/1.1\r\n\r\n", now), None);
    }
}
