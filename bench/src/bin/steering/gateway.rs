//! Fake gateways: each answers probes, and reports its requests in flight in the Prometheus text format, as an Envoy does.
//!
//! A report shows the load of some time ago (`late` of the scenario). The server does not know how long ago that was.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use fairway_whatif::simulate::{Rng, scenario::Reports};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

/// State of a gateway that the scenario sets.
#[derive(Debug)]
pub(crate) struct GatewayState {
    /// True if it serves; else connections are closed at once.
    pub(crate) serves: bool,
    /// True if neither probes nor load readers of the server reach it.
    pub(crate) is_cut_off: bool,
    /// True if it does not report its load.
    pub(crate) is_silent: bool,
    /// True if it reports a load of 0.
    pub(crate) lies: bool,
    /// Load that it reports from now on, if its statistics are frozen.
    pub(crate) frozen: Option<f64>,
    /// Demand that it carried in the unit of its capacity, the latest last.
    carried: VecDeque<(Instant, f64)>,
    reports: Reports,
    rng: Rng,
}

impl GatewayState {
    /// Sets the demand that it carries from now on.
    pub(crate) fn set_carried(&mut self, carried: f64, now: Instant) {
        self.carried.push_back((now, carried.max(0.0)));
        // If the second one is old enough to be reported, the first is not needed.
        while self.carried.get(1).is_some_and(|(at, _)| *at + self.reports.late <= now) {
            self.carried.pop_front();
        }
    }

    /// Freezes the statistics as they are.
    pub(crate) fn freeze(&mut self, now: Instant) {
        self.frozen = Some(self.reported(now));
    }

    /// Returns the load as the statistics show it.
    fn reported(&mut self, now: Instant) -> f64 {
        let error = self.rng.error(self.reports.noise);
        let is_old = |(at, _): &&(Instant, f64)| *at + self.reports.late <= now;
        let carried = self.carried.iter().rfind(is_old).map_or(0.0, |(_, carried)| *carried);
        if self.lies { 0.0 } else { (carried * error).round() }
    }

    /// Returns the statistics; `None` if the report is lost.
    fn statistics(&mut self, now: Instant) -> Option<String> {
        let is_lost = self.rng.fraction() < self.reports.loss;
        if self.is_silent || is_lost {
            return None;
        }
        let present = self.reported(now);
        let reported = self.frozen.unwrap_or(present);
        Some(format!("envoy_http_downstream_rq_active{{envoy_http_conn_manager_prefix=\"ingress\"}} {reported}\n"))
    }

    /// Returns its response to a request; `None` if it does not respond.
    fn respond(&mut self, request: &[u8], now: Instant) -> Option<String> {
        if !self.serves || self.is_cut_off {
            return None;
        }
        let body = if request.starts_with(b"GET /stats") { self.statistics(now)? } else { "ok".to_owned() };
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length:";
        Some(format!("{head} {}\r\n\r\n{body}", body.len()))
    }
}

/// A gateway on a port of its own, until it is dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Its port on 127.0.0.1.
    pub(crate) port: u16,
    state: Arc<Mutex<GatewayState>>,
    listener: JoinHandle<()>,
}

impl Gateway {
    pub(crate) async fn start(reports: &Reports, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let state = GatewayState {
            serves: true,
            is_cut_off: false,
            is_silent: false,
            lies: false,
            frozen: None,
            carried: VecDeque::new(),
            reports: reports.clone(),
            rng: Rng::new(seed),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&shared)))),
                    // For example, no file descriptor is left. Others will be closed soon.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Ok(Self { port, state, listener: task })
    }

    /// Returns the state, which the scenario sets.
    pub(crate) fn state(&self) -> MutexGuard<'_, GatewayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<GatewayState>>) {
    let mut request = [0; 2048];
    let Ok(Ok(length @ 1..)) = timeout(Duration::from_secs(1), stream.read(&mut request)).await else { return };
    let response = state.lock().unwrap_or_else(PoisonError::into_inner).respond(&request[..length], Instant::now());
    if let Some(response) = response {
        let _ = stream.write_all(response.as_bytes()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(noise: f64) -> GatewayState {
        let reports = Reports { every: Duration::from_secs(1), late: Duration::from_secs(1), noise, loss: 0.0 };
        let (carried, rng) = (VecDeque::new(), Rng::new(1));
        GatewayState {
            serves: true,
            is_cut_off: false,
            is_silent: false,
            lies: false,
            frozen: None,
            carried,
            reports,
            rng,
        }
    }

    fn reported(state: &mut GatewayState, now: Instant) -> Option<f64> {
        let response = state.respond(b"GET /stats/prometheus HTTP/1.1\r\n\r\n", now)?;
        response.trim_end().rsplit(' ').next()?.parse().ok()
    }

    #[test]
    fn reported_load_is_as_old_as_the_scenario_says() {
        let (mut state, start) = (state(0.0), Instant::now());
        for tenth in 0..30u32 {
            state.set_carried(f64::from(tenth), start + Duration::from_millis(100) * tenth);
        }
        assert_eq!(reported(&mut state, start + Duration::from_millis(2_950)), Some(19.0));
        assert!(state.carried.len() < 13, "old loads must be removed");
    }

    #[test]
    fn gateway_lies_is_silent_or_is_cut_off() {
        let (mut state, now) = (state(0.2), Instant::now());
        state.set_carried(1000.0, now - Duration::from_secs(2));
        let load = reported(&mut state, now).unwrap();
        assert!((800.0..=1200.0).contains(&load) && load != 1000.0, "expected a load with an error: {load}");
        state.lies = true;
        assert_eq!(reported(&mut state, now), Some(0.0));
        state.is_silent = true;
        assert_eq!(reported(&mut state, now), None);
        assert!(state.respond(b"GET /ready HTTP/1.1\r\n\r\n", now).is_some(), "a silent gateway must pass probes");
        state.is_cut_off = true;
        assert_eq!(state.respond(b"GET /ready HTTP/1.1\r\n\r\n", now), None);
    }
}
