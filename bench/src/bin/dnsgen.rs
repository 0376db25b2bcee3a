//! Load generator with one thread. It matches and checks every answer, and prints one JSON object.
//!
//! Closed loop (default): `--socks` connected sockets with `--window` outstanding queries each; every answer triggers a new query. Open
//! loop (`--rate`): queries are sent on a schedule, and latency counts from the scheduled time.
//!
//! The generator polls its sockets without a pause. If something else interrupts it, that does not count against the server: outstanding
//! queries are not timed, queries that were due are timed from the end of the interruption, and a long one shifts the schedule.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, UdpSocket},
    os::fd::AsFd,
    time::Duration,
};

use clap::Parser;
use fairway_bench::{
    Batch, Histogram, Queries, QueryForm, Segments, ask_for_cookie, cpu_ns_of, monotonic_ns, process_cpu_ns,
};
use fairway_model::SplitMix;

/// Sends queries from a file to a DNS server, as fast as it answers or at a fixed rate.
#[derive(Parser)]
struct Options {
    /// Address of the server.
    #[arg(long, default_value = "127.0.0.1:5300")]
    server: SocketAddr,
    /// Query file with one `name TYPE` per line.
    #[arg(long)]
    file: String,
    /// Number of sockets, each with its own port.
    #[arg(long, default_value_t = 16)]
    socks: usize,
    /// Outstanding queries per socket (closed loop).
    #[arg(long, default_value_t = 8)]
    window: usize,
    /// Queries per second (open loop); 0 for the closed loop.
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Seconds to measure.
    #[arg(long, default_value_t = 1.0)]
    dur: f64,
    /// Seconds of warm-up before the measurement.
    #[arg(long, default_value_t = 0.15)]
    warm: f64,
    /// Number of answers after which the run ends; 0 for no limit.
    #[arg(long, default_value_t = 0)]
    count: u64,
    /// Seconds after which a query counts as lost.
    #[arg(long, default_value_t = 0.25)]
    timeout: f64,
    /// The queries and their checks.
    #[command(flatten)]
    form: QueryForm,
    /// Position in the file to start at; by default taken from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// Processes of the server, whose CPU time is counted.
    #[arg(long, value_delimiter = ',')]
    pids: Vec<i32>,
}

fn main() -> io::Result<()> {
    let mut options = Options::parse();
    if options.form.cookie {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(1)))?;
        socket.connect(options.server)?;
        options.form.known_cookie = ask_for_cookie(&socket)?;
    }
    let queries = Queries::read(&options.file, &options.form)?;
    let mut generator = Generator::new(&options, &queries)?;
    let (before, after) = generator.run()?;
    println!("{}", report(&before, &after, &generator.latency));
    Ok(())
}

/// Counts since the start, at some time.
#[derive(Clone, Default)]
struct Count {
    at_ns: u64,
    right: u64,
    wrong: u64,
    stray: u64,
    lost: u64,
    skipped: u64,
    untimed: u64,
    server_cpu_ns: u64,
    own_cpu_ns: u64,
}

/// Slot for an outstanding query.
#[derive(Clone, Copy, Default)]
struct Slot {
    query: u32,
    generation: u16,
    used: bool,
    is_timed: bool,
    since_ns: u64,
}

struct Port {
    socket: UdpSocket,
    slots: Vec<Slot>,
    free: Vec<u16>,
    batch: Batch,
}

/// Queries of one length, since a segmented send needs packets of equal length.
struct Group {
    len: usize,
    queries: Vec<u32>,
    cursor: usize,
}

struct Generator<'a> {
    options: &'a Options,
    queries: &'a Queries,
    ports: Vec<Port>,
    groups: Vec<Group>,
    /// Position in the file. The query there selects the group, so that groups are used in proportion to their size.
    turn: usize,
    next_port: usize,
    segments: Segments,
    count: Count,
    latency: Histogram,
    /// Time of the last round of the loop.
    round_ns: u64,
    /// End of the last interruption.
    resumed_ns: u64,
}

/// Queries per batch.
const BATCH: usize = 32;
/// Slots per socket: an ID has ten bits for the slot, below six bits for its generation.
const SLOTS_MAX: usize = 1024;
/// A longer round was interrupted. A round takes about 20 µs.
const INTERRUPTED_NS: u64 = 100_000;

impl<'a> Generator<'a> {
    fn new(options: &'a Options, queries: &'a Queries) -> io::Result<Self> {
        let window = if options.rate > 0.0 { SLOTS_MAX } else { options.window.min(SLOTS_MAX) };
        let mut groups: Vec<Group> = Vec::new();
        for number in 0..queries.len() {
            let len = queries.packet(number).len();
            match groups.iter_mut().find(|g| g.len == len) {
                Some(group) => group.queries.push(number as u32),
                None => groups.push(Group { len, queries: vec![number as u32], cursor: 0 }),
            }
        }
        let seed = SplitMix::new(options.seed.unwrap_or_else(monotonic_ns)).bits();
        for group in &mut groups {
            group.cursor = seed as usize % group.queries.len();
        }
        let ports = (0..options.socks).map(|_| Port::new(options.server, window)).collect::<io::Result<_>>()?;
        Ok(Self {
            options,
            queries,
            ports,
            groups,
            turn: 0,
            next_port: 0,
            segments: Segments::default(),
            count: Count::default(),
            latency: Histogram::default(),
            round_ns: u64::MAX,
            resumed_ns: 0,
        })
    }

    /// Warms up and measures. Returns the counts at the start and at the end of the measurement.
    fn run(&mut self) -> io::Result<(Count, Count)> {
        let begin = monotonic_ns();
        let timeout = ns(self.options.timeout);
        let mut before = None;
        let mut next_timeout = begin + timeout;
        let mut schedule = Schedule { base: begin, issued: 0, rate: self.options.rate };
        loop {
            let now = monotonic_ns();
            if schedule.rate > 0.0 && now.saturating_sub(self.round_ns) > INTERRUPTED_NS {
                self.resume(now);
            }
            self.round_ns = now;
            if before.is_none() && now >= begin + ns(self.options.warm) {
                self.latency = Histogram::default();
                schedule = Schedule { base: now, issued: 0, rate: self.options.rate };
                before = Some(self.count_at(now));
            }
            let done = self.options.count > 0 && self.count.right + self.count.wrong >= self.options.count;
            if let Some(count) = before.as_ref().filter(|b| done || now >= b.at_ns + ns(self.options.dur)) {
                return Ok((count.clone(), self.count_at(now)));
            }
            if now >= next_timeout {
                next_timeout = now + timeout;
                self.give_up(now, timeout);
            }
            self.exchange(now, &mut schedule)?;
        }
    }

    /// Handles the end of an interruption. The arrival of answers during it is unknown, so outstanding queries are not timed.
    fn resume(&mut self, now: u64) {
        self.resumed_ns = now;
        for slot in self.ports.iter_mut().flat_map(|port| &mut port.slots) {
            slot.is_timed = false;
        }
    }

    /// Receives answers and sends queries on all sockets.
    fn exchange(&mut self, now: u64, schedule: &mut Schedule) -> io::Result<()> {
        for port in 0..self.ports.len() {
            if schedule.rate == 0.0 {
                self.receive(port, BATCH);
                self.send(port, BATCH, |_| now)?;
            } else {
                while self.receive(port, BATCH) == BATCH {}
            }
        }
        if schedule.rate == 0.0 {
            return Ok(());
        }
        let due = schedule.due(monotonic_ns(), &mut self.count.skipped);
        while schedule.issued < due {
            let count = ((due - schedule.issued) as usize).min(BATCH);
            let port = self.next_port;
            self.next_port = (port + 1) % self.ports.len();
            let first = schedule.issued;
            let (schedule_at, resumed) = (*schedule, self.resumed_ns);
            let sent = self.send(port, count, |i| schedule_at.instant(first + i as u64 + 1).max(resumed))?;
            self.count.skipped += (count - sent) as u64;
            schedule.issued += count as u64;
        }
        Ok(())
    }

    /// Sends up to `count` queries in free slots; the i-th is timed from `since(i)`. Returns their number.
    fn send(&mut self, port: usize, count: usize, since: impl Fn(usize) -> u64) -> io::Result<usize> {
        let port = &mut self.ports[port];
        let count = count.min(port.free.len()).min(Segments::MAX);
        if count == 0 {
            return Ok(0);
        }
        self.turn = (self.turn + 1) % self.queries.len();
        let len = self.queries.packet(self.turn).len();
        let group = self.groups.iter_mut().find(|g| g.len == len).expect("every length has its group");
        self.segments.start(len);
        for i in 0..count {
            let Some(slot_number) = port.free.pop() else { break };
            let query = group.queries[group.cursor];
            group.cursor = (group.cursor + 1) % group.queries.len();
            let slot = &mut port.slots[usize::from(slot_number)];
            *slot = Slot {
                query,
                generation: (slot.generation + 1) & 0x3f,
                used: true,
                is_timed: true,
                since_ns: since(i),
            };
            let packet = self.segments.push(self.queries.packet(query as usize));
            packet[..2].copy_from_slice(&(slot.generation << 10 | slot_number).to_be_bytes());
        }
        // The server does not listen yet, or the buffer is full: the queries count as lost after the timeout.
        let is_lost = |error: &io::Error| matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::WouldBlock);
        match self.segments.send(port.socket.as_fd()) {
            Err(error) if !is_lost(&error) => Err(error),
            _ => Ok(count),
        }
    }

    fn receive(&mut self, port: usize, max: usize) -> usize {
        let port = &mut self.ports[port];
        let got = port.batch.receive(port.socket.as_fd(), max, false);
        let now = if got > 0 { monotonic_ns() } else { 0 };
        for number in 0..got {
            let (octets, len) = port.batch.slot(number);
            let reply = &octets[..len];
            let id = reply.first_chunk::<2>().map_or(u16::MAX, |id| u16::from_be_bytes(*id));
            let slot = port.slots.get_mut(usize::from(id & 0x3ff)).filter(|s| s.used && s.generation == id >> 10);
            let Some(slot) = slot else {
                self.count.stray += 1;
                continue;
            };
            slot.used = false;
            port.free.push(id & 0x3ff);
            if slot.is_timed {
                self.latency.add(now.saturating_sub(slot.since_ns));
            } else {
                self.count.untimed += 1;
            }
            if self.queries.is_right(slot.query as usize, reply, &self.options.form) {
                self.count.right += 1;
            } else {
                self.count.wrong += 1;
            }
        }
        got
    }

    /// Frees the slots of queries without an answer within the timeout, and counts them as lost.
    fn give_up(&mut self, now: u64, timeout: u64) {
        for port in &mut self.ports {
            for (number, slot) in (0u16..).zip(&mut port.slots) {
                if slot.used && now > slot.since_ns + timeout {
                    slot.used = false;
                    port.free.push(number);
                    self.count.lost += 1;
                }
            }
        }
    }

    fn count_at(&self, now: u64) -> Count {
        Count {
            at_ns: now,
            server_cpu_ns: self.options.pids.iter().filter_map(|pid| cpu_ns_of(*pid)).sum(),
            own_cpu_ns: process_cpu_ns(),
            ..self.count.clone()
        }
    }
}

impl Port {
    fn new(server: SocketAddr, window: usize) -> io::Result<Self> {
        let socket = UdpSocket::bind(if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" })?;
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20)?;
        socket.connect(server)?;
        let free = (0..window as u16).rev().collect();
        Ok(Self { socket, slots: vec![Slot::default(); window], free, batch: Batch::new(64, 4096) })
    }
}

/// Schedule of the open loop.
#[derive(Clone, Copy)]
struct Schedule {
    base: u64,
    issued: u64,
    rate: f64,
}

impl Schedule {
    fn instant(&self, number: u64) -> u64 {
        self.base + (number as f64 * 1e9 / self.rate) as u64
    }

    /// Returns the number of queries due by now. After a delay of more than 2 ms the schedule shifts, since the
    /// generator caused the delay.
    fn due(&mut self, now: u64, skipped: &mut u64) -> u64 {
        let due = (now.saturating_sub(self.base) as f64 * self.rate / 1e9) as u64;
        let late = (self.rate * 0.002) as u64 + 64;
        if due.saturating_sub(self.issued) <= late {
            return due;
        }
        *skipped += due - self.issued;
        self.base = now - (self.issued as f64 * 1e9 / self.rate) as u64;
        self.issued
    }
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

fn report(before: &Count, after: &Count, latency: &Histogram) -> serde_json::Value {
    let seconds = (after.at_ns - before.at_ns) as f64 / 1e9;
    let (right, wrong) = (after.right - before.right, after.wrong - before.wrong);
    let got = (right + wrong).max(1) as f64;
    let server = after.server_cpu_ns.saturating_sub(before.server_cpu_ns) as f64;
    let us = |quantile| latency.quantile(quantile) as f64 / 1e3;
    serde_json::json!({
        "qps": (right + wrong) as f64 / seconds,
        "right": right,
        "wrong": wrong,
        "lost": after.lost - before.lost,
        "skipped": after.skipped - before.skipped,
        "untimed": (after.untimed - before.untimed) as f64 / got,
        "stray": after.stray - before.stray,
        "seconds": seconds,
        "p50_us": us(0.5),
        "p99_us": us(0.99),
        "p999_us": us(0.999),
        "server_cpu_ns": server / got,
        "server_busy": server / 1e9 / seconds,
        "own_cpu_ns": (after.own_cpu_ns - before.own_cpu_ns) as f64 / got,
    })
}
