//! Starts the threads of all sockets, sums their counters, and stops them.

use std::{
    io,
    net::{TcpListener, UdpSocket},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use fairway_zones::{ProvenNetworks, ServingState, Tally};
use tokio::sync::{mpsc, watch};

use super::{
    Counters, Responder, Sockets, TcpSettings, Zones,
    bind::RECEIVE_TIMEOUT,
    rates::LateRates,
    sockets::{Bound, Shared},
    spare::{SPARE_WORKERS, WakeAtEnd, spare_per_socket},
    stats::{LateTally, UdpCounters},
    stop::{Phase, Stop},
    tcp,
    udp::Worker,
};

/// The running transports. Dropping it stops them at once; [`Server::drain`] answers first what has arrived.
pub struct Server {
    sockets: Sockets,
    udp: Group,
    tcp: Group,
    /// Dropped right after the phases, so that parked threads see the end.
    _wake: WakeAtEnd,
    counters: Counters,
    threads: Vec<JoinHandle<()>>,
}

/// Threads that end together.
struct Group {
    phase: watch::Sender<Phase>,
    stop: Stop,
    /// Closes once every thread has ended.
    ended: mpsc::Receiver<()>,
    /// Dropped at the end.
    running: Option<mpsc::Sender<()>>,
}

impl Group {
    fn new() -> Self {
        let (phase, stop) = Stop::new();
        let (running, ended) = mpsc::channel(1);
        Self { phase, stop, ended, running: Some(running) }
    }

    /// Ends the threads, within `limit`. Does nothing if they have ended.
    async fn end(&mut self, phase: Phase, limit: Duration) {
        self.phase.send_replace(phase);
        SPARE_WORKERS.wake();
        self.running = None;
        if tokio::time::timeout(limit, self.ended.recv()).await.is_err() {
            tracing::warn!(?limit, "drain limit reached with queries unanswered");
            self.phase.send_replace(Phase::End);
            // A worker checks the phase at least once per receive timeout (200 ms).
            let _ = tokio::time::timeout(Duration::from_secs(1), self.ended.recv()).await;
        }
    }
}

impl Server {
    /// Starts the threads of each UDP socket and one thread for TCP. Every batch and every TCP read loads `serving` again.
    pub fn start<S: AsRef<ServingState> + Send + Sync + 'static>(
        sockets: Sockets,
        serving: Arc<ArcSwap<S>>,
        tcp: TcpSettings,
    ) -> io::Result<Self> {
        Self::start_with(sockets, tcp, move || Zones::new(Arc::clone(&serving)))
    }

    /// Starts with the caller's responders, one per thread.
    pub fn start_with<R: Responder>(
        sockets: Sockets,
        tcp: TcpSettings,
        responder: impl Fn() -> R + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let copies = sockets.try_clone()?.bound;
        let mut server = Self {
            sockets,
            udp: Group::new(),
            tcp: Group::new(),
            _wake: WakeAtEnd,
            counters: Counters::default(),
            threads: vec![],
        };
        let spare = spare_per_socket(copies.iter().map(|bound| bound.udp.len()).sum());
        let (proven, mut number, mut streams) = (Arc::<ProvenNetworks>::default(), 0, vec![]);
        for Bound { udp, tcp: listeners, shared, .. } in copies {
            let count = udp.len();
            for socket in udp {
                let rates = Arc::new(LateRates::new(count, Arc::clone(&proven)));
                for _ in 0..spare {
                    let socket = (socket.try_clone()?, shared.clone(), Arc::clone(&rates));
                    let responder = responder.clone();
                    server.start_udp("fairway-spare".to_owned(), socket, move |worker| worker.run_spare(&responder))?;
                }
                let (responder, socket) = (responder(), (socket, shared.clone(), rates));
                server.start_udp(format!("fairway-udp-{number}"), socket, move |worker| worker.run(responder))?;
                number += 1;
            }
            streams.extend(listeners.into_iter().map(|listener| (listener, shared.clone())));
        }
        if !streams.is_empty() {
            server.start_tcp(streams, tcp, responder(), proven)?;
        }
        Ok(server)
    }

    fn start_tcp<R: Responder>(
        &mut self,
        listeners: Vec<(TcpListener, Shared)>,
        settings: TcpSettings,
        responder: R,
        proven: Arc<ProvenNetworks>,
    ) -> io::Result<()> {
        let (running, tally) = (self.tcp.running.clone(), Arc::new(Tally::default()));
        self.counters.tallies.push(Arc::new(Arc::clone(&tally).into()));
        let counters = (tally, Arc::clone(&self.counters.tcp));
        let work = tcp::prepare(listeners, responder, counters, proven, settings, self.tcp.stop.clone())?;
        self.threads.push(thread::Builder::new().name("fairway-tcp".to_owned()).spawn(move || {
            work();
            drop(running);
        })?);
        Ok(())
    }

    fn start_udp(
        &mut self,
        name: String,
        (socket, shared, rates): (UdpSocket, Shared, Arc<LateRates>),
        work: impl FnOnce(Worker<'_>) + Send + 'static,
    ) -> io::Result<()> {
        let (tally, counters) = (Arc::<LateTally>::default(), Arc::new(UdpCounters::default()));
        let (stop, running) = (self.udp.stop.clone(), self.udp.running.clone());
        self.counters.tallies.push(Arc::clone(&tally));
        self.counters.udp.push(Arc::clone(&counters));
        self.threads.push(thread::Builder::new().name(name).spawn(move || {
            let (shared, rates, tally, counters, stop) = (&shared, &rates, &tally, &counters, &stop);
            work(Worker { socket: &socket, shared, rates, tally, counters, stop });
            // `running` reports the end, so the port must be free before.
            drop(socket);
            drop(running);
        })?);
        Ok(())
    }

    /// Returns the counters of all threads. A clone can still be read after the server has ended.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns duplicates of all sockets, for a hand-over.
    pub fn sockets(&self) -> io::Result<Sockets> {
        self.sockets.try_clone()
    }

    /// Ends TCP alone, after it has answered what has arrived, within `limit`.
    pub async fn drain_tcp(&mut self, limit: Duration) {
        // These duplicates would keep the listeners open after the thread has closed its own.
        self.sockets.bound.iter_mut().for_each(|bound| bound.tcp.clear());
        self.tcp.end(Phase::Drain, limit).await;
    }

    /// Ends TCP, then UDP, each after it has answered what has arrived, together within `limit`. UDP answers to the last moment: nobody else
    /// does, so a query that is refused is lost.
    ///
    /// Sockets that a service manager holds stay open there. Queries that reach them later wait for the next process.
    pub async fn drain(mut self, limit: Duration) {
        let until = Instant::now() + limit;
        // No worker may wait for a query once the first one has ended. A wait that has begun takes one old timeout.
        let awake = Instant::now() + RECEIVE_TIMEOUT;
        for bound in self.sockets.bound.iter().filter(|bound| !bound.shared.is_shared()) {
            for socket in &bound.udp {
                // If it fails, the end takes longer.
                let _ = socket.set_read_timeout(Some(LAST_RECEIVE_TIMEOUT));
            }
        }
        // These duplicates would keep the sockets open after the threads have closed theirs.
        self.sockets = Sockets::default();
        self.tcp.end(Phase::Drain, limit).await;
        tokio::time::sleep_until(awake.min(until).into()).await;
        let left = until.saturating_duration_since(Instant::now());
        self.udp.end(Phase::Drain, left.max(RECEIVE_TIMEOUT)).await;
        join_ended(self.threads);
    }

    /// Leaves the sockets and the queries queued in them to the process that took them over. Serves open TCP connections until they
    /// are idle or `limit` has passed.
    pub async fn leave(mut self, limit: Duration) {
        self.sockets = Sockets::default();
        tokio::join!(self.udp.end(Phase::Leave, limit), self.tcp.end(Phase::Leave, limit));
        join_ended(self.threads);
    }
}

fn join_ended(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().filter(JoinHandle::is_finished).for_each(|thread| drop(thread.join()));
}

/// Receive timeout of the last moment of UDP, in which the workers end one after the other.
const LAST_RECEIVE_TIMEOUT: Duration = Duration::from_millis(5);
