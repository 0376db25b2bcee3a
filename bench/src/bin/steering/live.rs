//! A run against the real server: caches that query it over UDP, and gateways that carry the demand of the answers.
//!
//! Clients, scenario, traffic and recording are the simulator's. Only time, packets and the server are real.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use fairway_api_types::{
    client::Client,
    overrides_wire::{NewOverride, OverrideParameters},
};
use fairway_model::Timestamp;
use fairway_whatif::simulate::{
    Answer, Drain, Next, Population, Queue, Recording, Rng, Traffic,
    scenario::{Event, Scenario, Start},
};
use tokio::{
    net::UdpSocket,
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    gateway::Gateway,
    server::{self, Kept, Server},
};

/// Message of another task to the run.
enum Message {
    /// A drain has begun, and the server predicts its end.
    Drain(Drain),
    /// The server has restarted.
    Restarted(Box<io::Result<Server>>),
    /// A packet was received.
    Packet(Vec<u8>),
}

/// A query without an answer so far.
#[derive(Clone, Copy)]
struct Pending {
    network: u32,
    cache: u16,
    /// Number of samples when it was sent.
    sent: u32,
}

/// Result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Everything that was measured.
    pub(crate) recording: Recording,
    /// Number of queries that were sent again.
    pub(crate) lost: u64,
    /// Longest delay of this program itself. Figures of a run with a long one are not usable.
    pub(crate) held_up: Duration,
}

/// A query is sent again after this many samples, which is a fifth of a TTL.
const RETRY_AFTER: u32 = 8;

struct Run<'a> {
    scenario: &'a Scenario,
    rng: Rng,
    queue: Queue<Infallible>,
    traffic: Traffic,
    gateways: Vec<Gateway>,
    drained: Vec<bool>,
    start: Instant,
    /// Resolvers, each with an address of its own.
    sockets: Vec<Arc<UdpSocket>>,
    /// Queries by their ID.
    pending: Vec<Option<Pending>>,
    /// IDs with the number of samples when they were sent, in that order.
    sent: VecDeque<(u16, u32)>,
    next_id: u16,
    samples: u32,
    /// `None` while the server restarts.
    server: Option<Server>,
    sender: mpsc::UnboundedSender<Message>,
    messages: mpsc::UnboundedReceiver<Message>,
    outcome: Outcome,
}

/// Runs a scenario once against a server of its own. The times of the scenario are real times.
pub(crate) async fn run(program: &Path, scenario: &Scenario, seed: u64) -> io::Result<Outcome> {
    let is_flooded = scenario.events.iter().any(|(_, event)| matches!(event, Event::Flood(_)));
    if scenario.servers.len() > 1 || scenario.start != Start::Cold || scenario.is_informed || is_flooded {
        return Err(io::Error::other(
            "the scenario has `servers`, `start`, `informed` or `flood`; live runs have one server, a cold start and no attacker",
        ));
    }
    if scenario.pools.len() > 1 || scenario.pools[0].policy != Scenario::default_policy() {
        return Err(io::Error::other("the scenario has a pool of its own; live runs support the default pool only"));
    }
    let mut rng = Rng::new(seed);
    let population = Population::new(scenario, &mut rng);
    let mut gateways = Vec::new();
    for _ in &scenario.clusters {
        gateways.push(Gateway::start(&scenario.reports, rng.bits()).await?);
    }
    let server = Server::start(program, scenario, &population, &gateways).await?;
    let (sender, messages) = mpsc::unbounded_channel();
    let mut sockets = Vec::new();
    for source in server::sources(&population) {
        let socket = Arc::new(UdpSocket::bind((source, 0)).await?);
        socket.connect(server.address).await?;
        tokio::spawn(forward(Arc::clone(&socket), sender.clone()));
        sockets.push(socket);
    }
    let mut run = Run {
        queue: Queue::new(scenario, &population, &mut rng),
        outcome: Outcome { recording: Recording::new(scenario, population.demand()), lost: 0, held_up: Duration::ZERO },
        traffic: Traffic::new(population, gateways.len()),
        drained: vec![false; gateways.len()],
        start: Instant::now(),
        pending: vec![None; 1 << 16],
        sent: VecDeque::new(),
        next_id: 0,
        samples: 0,
        server: Some(server),
        sender,
        messages,
        scenario,
        rng,
        gateways,
        sockets,
    };
    let result = run.run().await;
    if let Some(server) = &mut run.server {
        server.stop().await;
    }
    result.map(|()| run.outcome)
}

impl Run<'_> {
    /// Returns the time since the start.
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn run(&mut self) -> io::Result<()> {
        while let Some(due) = self.queue.due()
            && due <= self.scenario.length
        {
            tokio::select! {
                biased;
                () = sleep_until(self.start + due) => self.catch_up(),
                message = self.messages.recv() => self.receive(message)?,
            }
            while let Ok(message) = self.messages.try_recv() {
                self.receive(Some(message))?;
            }
        }
        Ok(())
    }

    /// Does everything that is due.
    fn catch_up(&mut self) {
        let now = self.now();
        while self.queue.due().is_some_and(|due| due <= now)
            && let Some((due, next)) = self.queue.pop()
        {
            self.outcome.held_up = self.outcome.held_up.max(now - due);
            match next {
                Next::Event(number) => self.event(now, self.scenario.events[number].1),
                Next::Arrival(number) => {
                    let (network, caches) = self.traffic.replace(number);
                    (0..caches).for_each(|cache| self.query(network, cache));
                }
                Next::Demand => {
                    let period = self.scenario.demand_period();
                    self.outcome.recording.demand = self.traffic.follow_demand(due.saturating_sub(period), due);
                    self.queue.push(due + period, Next::Demand);
                }
                Next::Query(network, cache) if self.traffic.is_present(network) => self.query(network, cache),
                Next::Query(..) => {}
                Next::Server(never) => match never {},
                Next::Sample => self.sample(due, now),
            }
        }
    }

    fn query(&mut self, network: u32, cache: u16) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let mut packet = fairway_bench::question(server::NAME, 1);
        fairway_bench::add_subnet(&mut packet, server::network(network));
        packet[..2].copy_from_slice(&id.to_be_bytes());
        // A query that cannot be sent is repeated like a lost one.
        let _ = self.sockets[network as usize % self.sockets.len()].try_send(&packet);
        self.pending[usize::from(id)] = Some(Pending { network, cache, sent: self.samples });
        self.sent.push_back((id, self.samples));
    }

    fn answer(&mut self, packet: &[u8]) {
        let Some((id, cluster, ttl)) = parse(packet) else { return };
        let Some(Pending { network, cache, .. }) = self.pending[usize::from(id)].take() else { return };
        let answer: Answer = Some(cluster).filter(|cluster| *cluster < self.gateways.len()).into_iter().collect();
        let previous = self.traffic.answer(network, cache, answer);
        let could_stay = previous.is_usable(|cluster| self.is_up(cluster));
        self.outcome.recording.count_answer(could_stay && previous != answer);
        let declared = self.scenario.ttl.as_secs_f64();
        let gap = self.traffic.population().networks[network as usize].gap;
        // Caches that keep answers longer, or query early, do so relative to the TTL of the answer.
        let pause = gap * f64::from(ttl) / declared + self.rng.exponential(0.01 * declared);
        self.queue.push(self.now() + Duration::from_secs_f64(pause), Next::Query(network, cache));
    }

    /// True if the server could answer with this cluster.
    fn is_up(&self, cluster: usize) -> bool {
        self.traffic.serves(cluster) && !self.gateways[cluster].state().is_cut_off && !self.drained[cluster]
    }

    fn sample(&mut self, due: Duration, now: Duration) {
        self.samples += 1;
        let carried = self.traffic.carried();
        for (gateway, load) in self.gateways.iter().zip(self.traffic.loads()) {
            gateway.state().set_carried(load, std::time::Instant::now());
        }
        let drained: Vec<_> = carried.iter().zip(&self.drained).map(|(carried, is)| is.then_some(*carried)).collect();
        self.outcome.recording.add(self.traffic.sample(self.scenario, now), &drained);
        self.queue.push(due + self.scenario.sample_period(), Next::Sample);
        self.retry();
    }

    /// Sends queries again that were not answered in time.
    fn retry(&mut self) {
        while let Some((id, sent)) = self.sent.front().copied()
            && sent + RETRY_AFTER <= self.samples
        {
            self.sent.pop_front();
            let pending = &mut self.pending[usize::from(id)];
            if let Some(lost) = pending.take_if(|pending| pending.sent == sent) {
                self.outcome.lost += 1;
                self.query(lost.network, lost.cache);
            }
        }
    }

    fn event(&mut self, now: Duration, event: Event) {
        match event {
            Event::Dies(cluster) => self.set_serving(cluster, false),
            Event::Returns(cluster) => self.set_serving(cluster, true),
            Event::Demand(cluster, offered) => {
                let demand = offered * self.scenario.capacity();
                self.traffic.set_demand(cluster, demand);
                self.outcome.recording.demand = demand;
            }
            Event::ReportsLost => self.gateways.iter().for_each(|gateway| gateway.state().is_silent = true),
            Event::ReportsBack => self.gateways.iter().for_each(|gateway| gateway.state().is_silent = false),
            Event::Lies(cluster) => self.gateways[cluster].state().lies = true,
            Event::Honest(cluster) => self.gateways[cluster].state().lies = false,
            Event::Partition(cluster) => self.gateways[cluster].state().is_cut_off = true,
            Event::Heal(cluster) => self.gateways[cluster].state().is_cut_off = false,
            Event::Drain(cluster) => self.drain(now, cluster),
            Event::Undrain(cluster) => self.undrain(cluster),
            Event::Restart => self.restart(Kept::State),
            Event::RestartBlank => self.restart(Kept::Nothing),
            // Scenarios with these events are rejected before the run.
            Event::Pool(_) | Event::Measured(_) | Event::Flood(_) => {}
            Event::Freeze(cluster) => self.gateways[cluster].state().freeze(std::time::Instant::now()),
            Event::Thaw(cluster) => self.gateways[cluster].state().frozen = None,
            Event::Elsewhere(cluster, part) => {
                self.traffic.set_elsewhere(cluster, part * self.scenario.clusters[cluster].capacity as f64);
            }
        }
    }

    fn set_serving(&mut self, cluster: usize, serves: bool) {
        self.gateways[cluster].state().serves = serves;
        self.traffic.set_serving(cluster, serves);
    }

    fn restart(&mut self, kept: Kept) {
        let Some(mut server) = self.server.take() else { return };
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let restarted = server.restart(kept).await.map(|()| server);
            let _ = sender.send(Message::Restarted(Box::new(restarted)));
        });
    }

    fn drain(&mut self, now: Duration, cluster: usize) {
        self.drained[cluster] = true;
        let Some(client) = self.server.as_ref().map(Server::client) else { return };
        let (sender, start) = (self.sender.clone(), self.start);
        let scope = self.scenario.clusters[cluster].name.as_str().to_owned();
        let new = NewOverride {
            scope: scope.clone(),
            action: "drain".to_owned(),
            reason: "test".to_owned(),
            for_secs: 3600,
            ..NewOverride::default()
        };
        tokio::spawn(async move {
            if client
                .add_override(&new, OverrideParameters { confirm: true, ..OverrideParameters::default() })
                .await
                .is_ok()
                && let Some(left) = drain_left(&client, &scope).await
            {
                let predicted = start.elapsed() + left;
                let _ = sender.send(Message::Drain(Drain { cluster, at: now, predicted, end: None }));
            }
        });
    }

    fn undrain(&mut self, cluster: usize) {
        self.drained[cluster] = false;
        let Some(client) = self.server.as_ref().map(Server::client) else { return };
        tokio::spawn(async move {
            for existing in client.state().await.map(|state| state.overrides).unwrap_or_default() {
                if let Some(id) = existing.id {
                    let _ = client.remove_override(&id).await;
                }
            }
        });
    }

    fn receive(&mut self, message: Option<Message>) -> io::Result<()> {
        match message {
            Some(Message::Restarted(server)) => self.server = Some((*server)?),
            Some(Message::Packet(packet)) => self.answer(&packet),
            Some(Message::Drain(drain)) => self.outcome.recording.drains.push(drain),
            None => {}
        }
        Ok(())
    }
}

/// Forwards the packets that a socket receives, until the run ends.
async fn forward(socket: Arc<UdpSocket>, sender: mpsc::UnboundedSender<Message>) {
    let mut packet = [0; 1500];
    loop {
        // An error means that the server restarts: then there is nothing to receive.
        let received = socket.recv(&mut packet).await;
        if received.is_ok_and(|length| sender.send(Message::Packet(packet[..length].to_vec())).is_err()) {
            return;
        }
    }
}

/// Returns how long the drain of a cluster will take, as the server states it; `None` if it does not within a second.
async fn drain_left(client: &Client, cluster: &str) -> Option<Duration> {
    // The server computes it only after it has decided which clusters take the clients.
    for _ in 0..20 {
        let state = client.state().await.ok()?;
        let drain = state.clusters.iter().find(|state| state.name == cluster)?.drain.as_ref();
        if let Some(over) = drain.and_then(|drain| drain.over.parse::<Timestamp>().ok()) {
            return Some(SystemTime::from(over).duration_since(SystemTime::now()).unwrap_or_default());
        }
        sleep_until(Instant::now() + Duration::from_millis(50)).await;
    }
    None
}

/// Returns ID, cluster and TTL of an answer; `None` without an address of a cluster.
fn parse(packet: &[u8]) -> Option<(u16, usize, u32)> {
    let id = u16::from_be_bytes([*packet.first()?, *packet.get(1)?]);
    let begin = fairway_bench::question(server::NAME, 1).len();
    // Owner (a pointer), type, class, TTL, length, address.
    let record: [u8; 16] = packet.get(begin..begin + 16)?.try_into().ok()?;
    let [_, _, 0, 1, 0, 1, t, t2, t3, t4, 0, 4, 192, 0, 2, last] = record else { return None };
    (packet[3] & 15 == 0).then(|| (id, usize::from(last).wrapping_sub(1), u32::from_be_bytes([t, t2, t3, t4])))
}
