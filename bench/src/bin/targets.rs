//! Health targets: small HTTP servers that answer 200 on every path.
//!
//! With `--fail` it measures failover times as well: takes 127.0.1.1 down repeatedly, queries the server meanwhile, and reports when the
//! last wrong answer was sent. Otherwise lines on standard input change the responses: `refuse`, `hang`, `error` and `up` for 127.0.1.1,
//! `alternate` and `steady` with `--all-loopback`.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use clap::{Parser, ValueEnum};
use fairway_bench::{monotonic_ns, question};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::watch,
};

/// Serves health targets on 127.0.1.1 to .3, or on every loopback address.
#[derive(Parser)]
struct Options {
    /// Port of the health page.
    #[arg(long, default_value_t = 8181)]
    port: u16,
    /// One listener for all of 127.0.0.0/8 instead of three (bound to 0.0.0.0, answers loopback clients only).
    #[arg(long)]
    all_loopback: bool,
    /// Number of listeners on distinct addresses and ports, instead of three.
    #[arg(long, default_value_t = 0)]
    distinct: u64,
    /// Number of the first of these listeners, to split them over processes: a process has a limit of open sockets.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Measures failover with this kind of failure, then ends.
    #[arg(long)]
    fail: Option<How>,
    /// Address of the server, which must stop answering with 127.0.1.1.
    #[arg(long, default_value = "127.0.0.1:5300")]
    server: SocketAddr,
    /// The steered name.
    #[arg(long, default_value = "s0000001.bench.test")]
    name: String,
    /// Number of repetitions.
    #[arg(long, default_value_t = 20)]
    reps: u32,
    /// Seconds to watch after each change.
    #[arg(long, default_value_t = 3.0)]
    settle: f64,
}

/// Kind of failure of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// The port is closed.
    Refuse,
    /// The kernel accepts connections, but requests are not answered.
    Hang,
    /// Requests are answered with 503. Times count from the first such answer.
    Error,
}

/// Time at which the first 503 since the last change was sent; 0 before that.
static ERROR_NS: AtomicU64 = AtomicU64::new(0);

/// Longest time for the start of a server, in seconds.
const START_MAX: f64 = 60.0;

/// Current failure of a target; `None` if it is healthy.
type State = Option<How>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let options = Options::parse();
    if options.all_loopback {
        return all_loopback(options.port).await;
    }
    if options.distinct > 0 {
        return distinct(options.first..options.first + options.distinct).await;
    }
    let (state, seen) = watch::channel(None);
    tokio::spawn(serve_first(bind(1, options.port)?, options.port, seen));
    for last in [2, 3] {
        tokio::spawn(serve(bind(last, options.port)?));
    }
    match options.fail {
        Some(how) => measure(&options, how, &state).await,
        None => follow_input(state).await,
    }
}

/// Changes the state by lines of standard input. The end of the input changes nothing.
async fn follow_input(state: watch::Sender<State>) -> io::Result<()> {
    on_lines(move |line| _ = state.send_replace(How::from_str(line, true).ok()));
    std::future::pending().await
}

fn on_lines(act: impl Fn(&str) + Send + 'static) {
    std::thread::spawn(move || {
        io::stdin().lines().map_while(Result::ok).for_each(|line| act(line.trim()));
        // Keeps the sender in `act`: a channel without a sender is closed.
        loop {
            std::thread::park();
        }
    });
}

/// Serves every loopback address. While it alternates, each address answers 200 and 503 in turn.
async fn all_loopback(port: u16) -> io::Result<()> {
    let alternates = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&alternates);
    on_lines(move |line| shared.store(line == "alternate", Ordering::Relaxed));
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await?;
    let mut turns: HashMap<IpAddr, bool> = HashMap::new();
    loop {
        let (stream, peer) = listener.accept().await?;
        let fails = alternates.load(Ordering::Relaxed) && {
            let turn = turns.entry(stream.local_addr()?.ip()).or_default();
            *turn = !*turn;
            *turn
        };
        if peer.ip().is_loopback() {
            tokio::spawn(answer(stream, if fails { ERROR } else { OK }));
        }
    }
}

/// Serves the addresses and ports of the workload `fairway-checks`.
async fn distinct(numbers: Range<u64>) -> io::Result<()> {
    for number in numbers {
        let address = fairway_bench::distinct_target(number);
        let bound = TcpListener::bind(address).await;
        tokio::spawn(serve(bound.map_err(|error| io::Error::other(format!("{address}: {error}")))?));
    }
    std::future::pending().await
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, OK));
    }
}

fn bind(last: u8, port: u16) -> io::Result<TcpListener> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::new(127, 0, 1, last), port).into())?;
    socket.listen(1024)
}

/// Serves 127.0.1.1, the only target that fails.
async fn serve_first(listener: TcpListener, port: u16, mut state: watch::Receiver<State>) {
    let mut listener = Some(listener);
    loop {
        let now = *state.borrow_and_update();
        match (now, &mut listener) {
            (Some(How::Refuse), open) => *open = None,
            (_, open @ None) => *open = bind(1, port).ok(),
            _ => {}
        }
        let accepted = async {
            match &listener {
                Some(open) if now != Some(How::Hang) => open.accept().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = accepted => if let Ok((stream, _)) = accepted {
                tokio::spawn(answer(stream, if now.is_none() { OK } else { ERROR }));
            },
            // The sender lives as long as the program.
            _ = state.changed() => {}
        }
    }
}

const OK: &str = "200 OK";
const ERROR: &str = "503 Service Unavailable";

async fn answer(mut stream: TcpStream, status: &str) {
    let mut request = [0; 2048];
    let read = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut request)).await;
    if matches!(read, Ok(Ok(1..))) {
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
        if status == ERROR {
            let _ = ERROR_NS.compare_exchange(0, monotonic_ns(), Ordering::Relaxed, Ordering::Relaxed);
        }
        let _ = stream.write_all(head.as_bytes()).await;
    }
}

/// Changes the first target repeatedly. Prints the milliseconds to the last answer with it after a failure, and to the first one after the
/// recovery.
async fn measure(options: &Options, how: How, state: &watch::Sender<State>) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    socket.connect(options.server).await?;
    // tokio's timer has a resolution of a millisecond, which is too coarse for this failure.
    let pause = if how == How::Error { Duration::ZERO } else { Duration::from_micros(500) };
    let mut client = Client { socket, packet: question(&options.name, 1), id: 0, pause };
    // The server may still be starting.
    if client.watch(monotonic_ns(), START_MAX, false).await.is_none() {
        return Err(io::Error::other(format!(
            "{} does not answer {} with 127.0.1.1 within {START_MAX} s",
            options.server, options.name
        )));
    }
    let (mut gone, mut back) = (Vec::new(), Vec::new());
    for round in 0..options.reps {
        // A different phase relative to the probes each time.
        tokio::time::sleep(Duration::from_millis(137 * u64::from(round * 7 % 16))).await;
        let t0 = monotonic_ns();
        ERROR_NS.store(0, Ordering::Relaxed);
        state.send_replace(Some(how));
        let last = client.watch(t0, options.settle, true).await;
        let since = if how == How::Error { ERROR_NS.load(Ordering::Relaxed) } else { t0 };
        if since == 0 {
            return Err(io::Error::other("the failing target was not probed; give it more time (--settle)"));
        }
        gone.push(last.unwrap_or(t0).saturating_sub(since) as f64 / 1e6);
        let t0 = monotonic_ns();
        state.send_replace(None);
        if let Some(first) = client.watch(t0, options.settle * 3.0, false).await {
            back.push((first - t0) as f64 / 1e6);
        }
    }
    println!(
        "{}",
        serde_json::json!({ "how": format!("{how:?}").to_lowercase(), "gone_ms": spread(&mut gone), "back_ms": spread(&mut back) })
    );
    Ok(())
}

struct Client {
    socket: UdpSocket,
    packet: Vec<u8>,
    id: u16,
    pause: Duration,
}

impl Client {
    /// Queries every `pause` for some seconds. Returns the time of the last answer with 127.0.1.1 if `last`, else of the first.
    async fn watch(&mut self, since: u64, seconds: f64, last: bool) -> Option<u64> {
        let mut found = None;
        while monotonic_ns() - since < (seconds * 1e9) as u64 {
            let sent = monotonic_ns();
            if self.has_first_target().await {
                found = Some(sent);
                if !last {
                    break;
                }
            }
            if self.pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(self.pause).await;
            }
        }
        found
    }

    async fn has_first_target(&mut self) -> bool {
        self.id = self.id.wrapping_add(1);
        self.packet[..2].copy_from_slice(&self.id.to_be_bytes());
        // An error means that the server does not listen, which counts as no answer.
        let _ = self.socket.send(&self.packet).await;
        let mut reply = [0; 2048];
        let within = Duration::from_millis(100);
        while let Ok(Ok(got)) = tokio::time::timeout(within, self.socket.recv(&mut reply)).await {
            let reply = &reply[..got];
            if reply.len() > self.packet.len() && reply[..2] == self.packet[..2] {
                // RDLENGTH 4 and the address.
                return reply[self.packet.len()..].windows(6).any(|w| w == [0, 4, 127, 0, 1, 1]);
            }
        }
        false
    }
}

fn spread(values: &mut [f64]) -> serde_json::Value {
    values.sort_by(f64::total_cmp);
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let at = |place: usize| values.get(place).copied().map_or(f64::NAN, rounded);
    let (count, half) = (values.len(), values.len() / 2);
    let median = rounded((at(half) + at(half.saturating_sub(1 - count % 2))) / 2.0);
    serde_json::json!({ "min": at(0), "median": median, "max": at(count.saturating_sub(1)), "count": count })
}
