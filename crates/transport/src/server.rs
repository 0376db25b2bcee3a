//! Starts the threads of all sockets, sums their counters, and stops them.

use std::{
    fmt, io,
    net::{TcpListener, UdpSocket},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use arc_swap::ArcSwap;
use fairway_zones::{ServingState, Tally};
use tokio::sync::{mpsc, watch};

use super::{
    Counters, Responder, Sockets, TcpSettings, Zones,
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
    phase: watch::Sender<Phase>,
    /// Dropped right after `phase`, so that parked threads see the end.
    _wake: WakeAtEnd,
    stop: Stop,
    counters: Counters,
    threads: Vec<JoinHandle<()>>,
    /// Closes once every thread has ended.
    ended: mpsc::Receiver<()>,
    running: mpsc::Sender<()>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addresses", &self.sockets.addresses()).finish_non_exhaustive()
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
        let (phase, stop) = Stop::new();
        let (running, ended) = mpsc::channel(1);
        let copies = sockets.try_clone()?.bound;
        let mut server = Self {
            sockets,
            phase,
            _wake: WakeAtEnd,
            stop,
            counters: Counters::default(),
            threads: vec![],
            ended,
            running,
        };
        let spare = spare_per_socket(copies.iter().map(|bound| bound.udp.len()).sum());
        let (mut number, mut streams) = (0, vec![]);
        for Bound { udp, tcp: listeners, shared, .. } in copies {
            for socket in udp {
                for _ in 0..spare {
                    let (responder, socket) = (responder.clone(), (socket.try_clone()?, shared.clone()));
                    server.start_udp("fairway-spare".to_owned(), socket, move |worker| worker.run_spare(&responder))?;
                }
                let (responder, socket) = (responder(), (socket, shared.clone()));
                server.start_udp(format!("fairway-udp-{number}"), socket, move |worker| worker.run(responder))?;
                number += 1;
            }
            streams.extend(listeners.into_iter().map(|listener| (listener, shared.clone())));
        }
        if !streams.is_empty() {
            server.start_tcp(streams, tcp, responder())?;
        }
        Ok(server)
    }

    fn start_tcp<R: Responder>(
        &mut self,
        listeners: Vec<(TcpListener, Shared)>,
        settings: TcpSettings,
        responder: R,
    ) -> io::Result<()> {
        let (running, tally) = (self.running.clone(), Arc::new(Tally::default()));
        self.counters.tallies.push(Arc::new(Arc::clone(&tally).into()));
        let counters = (tally, Arc::clone(&self.counters.tcp));
        let work = tcp::prepare(listeners, responder, counters, settings, self.stop.clone())?;
        self.threads.push(thread::Builder::new().name("fairway-tcp".to_owned()).spawn(move || {
            work();
            drop(running);
        })?);
        Ok(())
    }

    fn start_udp(
        &mut self,
        name: String,
        (socket, shared): (UdpSocket, Shared),
        work: impl FnOnce(Worker<'_>) + Send + 'static,
    ) -> io::Result<()> {
        let (tally, counters) = (Arc::<LateTally>::default(), Arc::new(UdpCounters::default()));
        let (stop, running) = (self.stop.clone(), self.running.clone());
        self.counters.tallies.push(Arc::clone(&tally));
        self.counters.udp.push(Arc::clone(&counters));
        self.threads.push(thread::Builder::new().name(name).spawn(move || {
            work(Worker { socket: &socket, shared: &shared, tally: &tally, counters: &counters, stop: &stop });
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

    /// Stops receiving, answers what has arrived, and ends, within `limit`.
    ///
    /// Sockets that a service manager holds stay open there. Queries that reach them later wait for the next process.
    pub async fn drain(self, limit: Duration) {
        self.end(Phase::Drain, limit).await;
    }

    /// Leaves the sockets and the queries queued in them to the process that took them over. Serves open TCP connections until they
    /// are idle or `limit` has passed.
    pub async fn leave(self, limit: Duration) {
        self.end(Phase::Leave, limit).await;
    }

    async fn end(mut self, phase: Phase, limit: Duration) {
        self.phase.send_replace(phase);
        SPARE_WORKERS.wake();
        // These duplicates would keep the sockets open after the threads have closed theirs.
        self.sockets = Sockets::default();
        drop(self.running);
        if tokio::time::timeout(limit, self.ended.recv()).await.is_err() {
            tracing::warn!(?limit, "drain limit reached with queries unanswered");
            self.phase.send_replace(Phase::End);
            // A worker checks the phase at least once per receive timeout (200 ms).
            let _ = tokio::time::timeout(Duration::from_secs(1), self.ended.recv()).await;
        }
        self.threads.into_iter().filter(JoinHandle::is_finished).for_each(|thread| drop(thread.join()));
    }
}
