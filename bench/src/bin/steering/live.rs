//! One run: caches that ask the running server over UDP, and gateways that carry what was answered.
//!
//! Who asks, what happens when, and what is written down are the simulator's; only time, packets and the server are real.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use fairway_api_types::{client::Client, state_wire::NewOverride};
use fairway_model::Timestamp;
use fairway_whatif::simulate::{
    Chance, Drained, Population, Recording, Sample, is_near,
    scenario::{Event, Scenario},
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

/// The next event. Events at the same time happen in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Happens(usize),
    Ask(u32, u16),
    Sample,
}

/// Messages of other tasks to the run.
enum News {
    /// A drain has begun, and when it is said to be over.
    Drain(Drained),
    /// The server runs again.
    Restarted(Box<io::Result<Server>>),
}

/// A cache of a network, by its last answer.
#[derive(Clone, Copy, Default)]
struct Cache {
    answer: Option<usize>,
}

/// A question that is not answered yet.
#[derive(Clone, Copy)]
struct Flying {
    network: u32,
    cache: u16,
    sent: u32,
}

/// Outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Everything that was measured.
    pub(crate) recording: Recording,
    /// Questions that had to be asked again.
    pub(crate) lost: u64,
    /// Most that this program itself was late: the machine's fault, and nobody's figure.
    pub(crate) held_up: Duration,
}

/// Samples a TTL.
const SAMPLES: u32 = 40;
/// A question is asked again after this many samples' time.
const PATIENCE: u32 = 8;

struct World<'a> {
    scenario: &'a Scenario,
    population: Population,
    chance: Chance,
    queue: BinaryHeap<Reverse<(Duration, Next)>>,
    gateways: Vec<Gateway>,
    drained: Vec<bool>,
    carried: Vec<f64>,
    caches: Vec<Vec<Cache>>,
    near: f64,
    nearby: f64,
    start: Instant,
    socket: UdpSocket,
    /// By the ID of the question.
    flying: Vec<Option<Flying>>,
    /// IDs in the order they were sent in.
    sent: VecDeque<(u16, u32)>,
    next_id: u16,
    samples: u32,
    server: Option<Server>,
    news: (mpsc::UnboundedSender<News>, mpsc::UnboundedReceiver<News>),
    outcome: Outcome,
}

/// Plays a scenario, whose times are meant as they stand, once against a server of its own.
pub(crate) async fn play(program: &Path, scenario: &Scenario, seed: u64) -> io::Result<Outcome> {
    if scenario.pools.len() > 1 || scenario.pools[0].policy != Scenario::default_policy() {
        return Err(io::Error::other("the scenario has a pool of its own, and only the default one is played live"));
    }
    let mut chance = Chance::new(seed);
    let population = Population::new(scenario, &mut chance);
    if population.networks.len() > server::NETWORKS_MAX {
        return Err(io::Error::other(format!("more than {} networks for a live run", server::NETWORKS_MAX)));
    }
    let mut gateways = Vec::new();
    for _ in &scenario.clusters {
        gateways.push(Gateway::start(&scenario.reports, chance.bits()).await?);
    }
    let server = Server::start(program, scenario, &population, &gateways).await?;
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(server.address).await?;
    let mut world = World {
        caches: population.networks.iter().map(|n| vec![Cache::default(); usize::from(n.caches)]).collect(),
        drained: vec![false; gateways.len()],
        carried: vec![0.0; gateways.len()],
        queue: BinaryHeap::new(),
        near: 0.0,
        nearby: 0.0,
        start: Instant::now(),
        flying: vec![None; 1 << 16],
        sent: VecDeque::new(),
        next_id: 0,
        samples: 0,
        server: Some(server),
        news: mpsc::unbounded_channel(),
        outcome: Outcome { recording: Recording::new(scenario), lost: 0, held_up: Duration::ZERO },
        scenario,
        population,
        chance,
        gateways,
        socket,
    };
    world.begin();
    let played = world.play().await;
    if let Some(server) = &mut world.server {
        server.stop().await;
    }
    played.map(|()| world.outcome)
}

impl World<'_> {
    fn begin(&mut self) {
        let ttl = self.scenario.ttl;
        for network in 0..self.caches.len() {
            for cache in 0..self.caches[network].len() {
                let at = ttl.mul_f64(self.chance.part());
                self.put(at, Next::Ask(network as u32, cache as u16));
            }
        }
        for (place, (at, _)) in self.scenario.events.iter().enumerate() {
            self.queue.push(Reverse((*at, Next::Happens(place))));
        }
        self.put(ttl / SAMPLES, Next::Sample);
    }

    fn put(&mut self, at: Duration, next: Next) {
        self.queue.push(Reverse((at, next)));
    }

    /// Time since the run began.
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn play(&mut self) -> io::Result<()> {
        let mut packet = [0; 1500];
        while let Some(Reverse((due, _))) = self.queue.peek().copied() {
            if due > self.scenario.length {
                break;
            }
            tokio::select! {
                biased;
                () = sleep_until(self.start + due) => self.catch_up(),
                news = self.news.1.recv() => self.hear(news)?,
                ready = self.socket.readable() => ready?,
            }
            // A server that restarts refuses; nobody answers then.
            while let Ok(length) = self.socket.try_recv(&mut packet) {
                self.answered(&packet[..length]);
            }
        }
        Ok(())
    }

    /// Does all that is due.
    fn catch_up(&mut self) {
        let now = self.now();
        while let Some(Reverse((due, next))) = self.queue.peek().copied()
            && due <= now
        {
            self.queue.pop();
            self.outcome.held_up = self.outcome.held_up.max(now - due);
            match next {
                Next::Happens(place) => self.happens(now, self.scenario.events[place].1),
                Next::Ask(network, cache) => self.ask(network, cache),
                Next::Sample => self.sample(due, now),
            }
        }
    }

    fn ask(&mut self, network: u32, cache: u16) {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let [a, b, c] = server::network(network);
        let mut packet = fairway_bench::question(server::NAME, 1);
        packet.extend_from_slice(&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 11, 0, 8, 0, 7, 0, 1, 24, 0, a, b, c]);
        packet[..2].copy_from_slice(&id.to_be_bytes());
        packet[11] = 1;
        // What cannot be sent is asked again like what was lost.
        let _ = self.socket.try_send(&packet);
        self.flying[usize::from(id)] = Some(Flying { network, cache, sent: self.samples });
        self.sent.push_back((id, self.samples));
    }

    fn answered(&mut self, packet: &[u8]) {
        let Some((id, cluster, ttl)) = read(packet) else { return };
        let Some(Flying { network, cache, .. }) = self.flying[usize::from(id)].take() else { return };
        let answer = Some(cluster).filter(|cluster| *cluster < self.carried.len());
        let client = &self.population.networks[network as usize];
        let part = client.demand / f64::from(client.caches);
        let former = std::mem::replace(&mut self.caches[network as usize][usize::from(cache)].answer, answer);
        if former != answer {
            former.inspect(|place| self.carried[*place] -= part);
            answer.inspect(|place| self.carried[*place] += part);
            let order = &self.population.rows[usize::from(client.row)];
            self.near += part * (is_near(answer, order, 1) - is_near(former, order, 1));
            self.nearby += part * (is_near(answer, order, 2) - is_near(former, order, 2));
        }
        let declared = self.scenario.ttl.as_secs_f64();
        // Caches that keep answers longer, or ask early, also start from the TTL of the answer.
        let pause = client.gap * f64::from(ttl) / declared + self.chance.wait(0.01 * declared);
        let stays = former.is_some_and(|place| self.could_stay(place));
        self.outcome.recording.answered(stays && former != answer);
        self.put(self.now() + Duration::from_secs_f64(pause), Next::Ask(network, cache));
    }

    fn could_stay(&self, cluster: usize) -> bool {
        let mood = self.gateways[cluster].mood();
        mood.serves && !mood.cut_off && !self.drained[cluster]
    }

    fn sample(&mut self, due: Duration, now: Duration) {
        self.samples += 1;
        let mut loads = Vec::new();
        for (place, gateway) in self.gateways.iter().enumerate() {
            let mut mood = gateway.mood();
            mood.carries(self.carried[place], std::time::Instant::now());
            let load = self.carried[place] / self.scenario.clusters[place].capacity as f64;
            loads.push(if mood.serves { load } else { 0.0 });
        }
        let drains: Vec<_> = self.carried.iter().zip(&self.drained).map(|(c, drained)| drained.then_some(*c)).collect();
        let dead = self.carried.iter().zip(&self.gateways).filter(|(_, gateway)| !gateway.mood().serves);
        let lost = dead.map(|(carried, _)| carried.max(0.0)).sum();
        let (near, nearby) = (self.near, self.nearby);
        self.outcome.recording.sample(Sample { at: now, loads, near, nearby, lost, slower: 0.0 }, &drains);
        self.put(due + self.scenario.ttl / SAMPLES, Next::Sample);
        self.ask_again();
    }

    /// Asks again what was not answered in time.
    fn ask_again(&mut self) {
        while let Some((id, sent)) = self.sent.front().copied()
            && sent + PATIENCE <= self.samples
        {
            self.sent.pop_front();
            let flying = &mut self.flying[usize::from(id)];
            if let Some(lost) = flying.take_if(|flying| flying.sent == sent) {
                self.outcome.lost += 1;
                self.ask(lost.network, lost.cache);
            }
        }
    }

    fn happens(&mut self, now: Duration, event: Event) {
        match event {
            Event::Dies(place) => self.gateways[place].mood().serves = false,
            Event::Returns(place) => self.gateways[place].mood().serves = true,
            Event::Demand(place, offered) => self.demand(place, offered),
            Event::ReportsLost => self.gateways.iter().for_each(|gateway| gateway.mood().silent = true),
            Event::ReportsBack => self.gateways.iter().for_each(|gateway| gateway.mood().silent = false),
            Event::Lies(place) => self.gateways[place].mood().lies = true,
            Event::Honest(place) => self.gateways[place].mood().lies = false,
            Event::Partition(place) => self.gateways[place].mood().cut_off = true,
            Event::Heal(place) => self.gateways[place].mood().cut_off = false,
            Event::Drain(place) => self.drain(now, place),
            Event::Undrain(place) => self.undrain(place),
            Event::Restart => self.restart(Kept::State),
            Event::RestartBlank => self.restart(Kept::Nothing),
            // Such scenarios are refused.
            Event::Pool(_) | Event::Measured(_) => {}
        }
    }

    /// The demand near one cluster grows or shrinks, so that the whole is what is offered.
    fn demand(&mut self, place: usize, offered: f64) {
        let capacity: f64 = self.scenario.clusters.iter().map(|c| c.capacity as f64).sum();
        let factor = self.population.growth(place, offered * capacity);
        for (network, caches) in self.population.networks.iter_mut().zip(&self.caches) {
            if network.home != place {
                continue;
            }
            let more = network.grow(factor);
            for answer in caches.iter().filter_map(|cache| cache.answer) {
                self.carried[answer] += more;
                let order = &self.population.rows[usize::from(network.row)];
                self.near += more * is_near(Some(answer), order, 1);
                self.nearby += more * is_near(Some(answer), order, 2);
            }
        }
        self.outcome.recording.whole = offered * capacity;
    }

    fn restart(&mut self, kept: Kept) {
        let (Some(mut server), news) = (self.server.take(), self.news.0.clone()) else { return };
        tokio::spawn(async move {
            let restarted = server.restart(kept).await.map(|()| server);
            let _ = news.send(News::Restarted(Box::new(restarted)));
        });
    }

    fn drain(&mut self, now: Duration, place: usize) {
        self.drained[place] = true;
        let (Some(client), news) = (self.server.as_ref().map(Server::client), self.news.0.clone()) else { return };
        let (scope, start) = (self.scenario.clusters[place].name.as_str().to_owned(), self.start);
        let new =
            NewOverride { scope: scope.clone(), action: "drain".to_owned(), reason: "test".to_owned(), for_secs: 3600 };
        tokio::spawn(async move {
            if client.add_override(&new).await.is_ok()
                && let Some(left) = drain_left(&client, &scope).await
            {
                let stated = start.elapsed() + left;
                let _ = news.send(News::Drain(Drained { place, at: now, stated, over: None }));
            }
        });
    }

    fn undrain(&mut self, place: usize) {
        self.drained[place] = false;
        let Some(client) = self.server.as_ref().map(Server::client) else { return };
        tokio::spawn(async move {
            for forced in client.state().await.map(|state| state.overrides).unwrap_or_default() {
                if let Some(id) = forced.id {
                    let _ = client.remove_override(&id).await;
                }
            }
        });
    }

    fn hear(&mut self, news: Option<News>) -> io::Result<()> {
        match news {
            Some(News::Restarted(server)) => self.server = Some((*server)?),
            Some(News::Drain(drained)) => self.outcome.recording.drained.push(drained),
            None => {}
        }
        Ok(())
    }
}

/// Returns how long the drain of a cluster will take, as the server states it; `None` if it does not within a second.
async fn drain_left(client: &Client, cluster: &str) -> Option<Duration> {
    // While it decides who takes the clients, it does not say.
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

/// ID, cluster and TTL of an answer; none if it is no answer with an address of a cluster.
fn read(packet: &[u8]) -> Option<(u16, usize, u32)> {
    let id = u16::from_be_bytes([*packet.first()?, *packet.get(1)?]);
    let begin = fairway_bench::question(server::NAME, 1).len();
    // Owner (a pointer), type, class, TTL, length, address.
    let record: [u8; 16] = packet.get(begin..begin + 16)?.try_into().ok()?;
    let [_, _, 0, 1, 0, 1, t, t2, t3, t4, 0, 4, 192, 0, 2, last] = record else { return None };
    (packet[3] & 15 == 0).then(|| (id, usize::from(last).wrapping_sub(1), u32::from_be_bytes([t, t2, t3, t4])))
}
