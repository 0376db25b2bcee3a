//! Measures the cost of probes, and the time from a failure to its transition.
//!
//! ```text
//! cargo run --release -p fairway-health --example measure -- load [TARGETS] [PERIOD_S] [SECONDS]
//! cargo run --release -p fairway-health --example measure -- failure [ROUNDS]
//! ```
//! `load` probes over plain HTTP. The targets are listeners of a second process, so that their CPU time is not counted.
//! `failure` lets a target refuse or hang at a random time and measures the time to the transition, with a period and a
//! timeout of 200 ms and fall 2.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use fairway_health::{Checker, CheckerSettings, HealthTransition};
use fairway_model::{Check, HealthStatus, HttpCheck, Monitor, MonitorName, ProbeAddress, StatusSet, Target};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpSocket, TcpStream},
    process::{Child, Command},
    sync::mpsc::{self, Receiver},
    time::{sleep, timeout},
};

/// Number of loopback addresses of the targets of `load`; further targets differ in their paths.
const ADDRESSES: u32 = 100;

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u32| args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(default);
    let threads = if args.first().is_some_and(|mode| mode == "serve") { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        match args.first().map(String::as_str) {
            Some("serve") => serve().await,
            Some("load") => load(number(1, 10_000), number(2, 10), number(3, 60)).await,
            Some("failure") => failures(number(1, 20)).await,
            _ => Err("expected load or failure".into()),
        }
    })
}

/// Listens at [`ADDRESSES`] on one port, prints the port, and answers until its input ends.
async fn serve() -> Result<(), Error> {
    let mut port = 0;
    for number in 0..ADDRESSES {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(address(number), port))?;
        let listener = socket.listen(1_024)?;
        port = listener.local_addr()?.port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream));
            }
        });
    }
    println!("{port}");
    tokio::io::stdin().read_to_end(&mut vec![]).await?;
    Ok(())
}

async fn answer(mut stream: TcpStream) {
    let mut request = [0; 2_048];
    if matches!(stream.read(&mut request).await, Ok(1..)) {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nserver: envoy\r\n\r\n").await;
        let _ = stream.read(&mut request).await;
    }
}

fn address(number: u32) -> IpAddr {
    Ipv4Addr::from(0x7F01_0001 + number).into()
}

fn http(port: u16, path: String, period: Duration, limit: Duration, fall: u8) -> Monitor {
    let check = HttpCheck {
        port,
        path,
        method: "GET".to_owned(),
        host: None,
        headers: vec![],
        status: StatusSet::default(),
        body: None,
        response_header: None,
        tls: None,
    };
    Monitor { period, timeout: limit, fall, ..Monitor::new(Check::Http(check)) }
}

fn target(address: IpAddr, monitor: &Arc<Monitor>) -> Result<Target, Error> {
    let label = MonitorName::new("measure")?;
    Ok(Target { address: ProbeAddress::Address(address), monitor: Arc::clone(monitor), label })
}

async fn load(targets: u32, period: u32, seconds: u32) -> Result<(), Error> {
    let (child, port) = start_server().await?;
    let bare = Usage::now()?;
    let period = Duration::from_secs(period.into());
    let mut all = vec![];
    for path in 0..targets.div_ceil(ADDRESSES) {
        let monitor = http(port, format!("/healthz/ready?{path}"), period, Duration::from_secs(4).min(period), 3);
        let monitor = Arc::new(monitor);
        for number in 0..ADDRESSES.min(targets - path * ADDRESSES) {
            all.push(target(address(number), &monitor)?);
        }
    }
    let (sender, mut transitions) = mpsc::channel(1_024);
    tokio::spawn(async move { while transitions.recv().await.is_some() {} });
    let checker = Checker::start(CheckerSettings::default(), sender);
    let start = Instant::now();
    checker.set_targets(all, vec![]).await;
    println!("set_targets {:?}", start.elapsed());
    let left = checker.first_round(Duration::from_secs(60)).await;
    println!("first round {:?}, {left} left, {:?} of CPU", start.elapsed(), Usage::now()?.cpu - bare.cpu);
    sleep(period).await;
    let (from, probes, start) = (Usage::now()?, probes(&checker).await, Instant::now());
    sleep(Duration::from_secs(seconds.into())).await;
    let (to, took) = (Usage::now()?, start.elapsed());
    let probes = self::probes(&checker).await - probes;
    let cpu = (to.cpu - from.cpu).as_secs_f64();
    println!(
        "{targets} targets every {period:?}: {:.0} probes/s, {:.3} of a core, {:.0} µs per probe",
        probes as f64 / took.as_secs_f64(),
        cpu / took.as_secs_f64(),
        cpu * 1e6 / probes as f64,
    );
    println!("memory: {} kB, of which {} kB before the first target", to.memory_kib, bare.memory_kib);
    let start = Instant::now();
    let states = checker.states().await;
    let up = states.iter().filter(|state| state.status == HealthStatus::Up).count();
    let failures: u64 = states.iter().map(|state| state.failures).sum();
    println!("states in {:?}: {up} up, {failures} failures; {:?}", start.elapsed(), checker.observer().await);
    drop(child);
    Ok(())
}

async fn probes(checker: &Checker) -> u64 {
    checker.states().await.iter().map(|state| state.passes + state.failures + state.inconclusive).sum()
}

/// Starts this program as the server, which ends with its input.
async fn start_server() -> Result<(Child, u16), Error> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.take().ok_or("the server has no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).await?;
    Ok((child, line.trim().parse()?))
}

/// CPU time and memory of this process.
struct Usage {
    cpu: Duration,
    memory_kib: u64,
}

impl Usage {
    fn now() -> Result<Self, Error> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // Fields 14 and 15 (proc(5)), after the name; in ticks of 10 ms.
        let after = stat.rsplit_once(')').ok_or("no name in /proc/self/stat")?.1;
        let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        let status = std::fs::read_to_string("/proc/self/status")?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
        let memory_kib = memory.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Self { cpu: Duration::from_millis(ticks * 10), memory_kib })
    }
}

async fn failures(rounds: u32) -> Result<(), Error> {
    for hang in [false, true] {
        let mut took = vec![];
        for round in 0..rounds {
            // Times spread over the period.
            took.push(one_failure(hang, Duration::from_millis(u64::from(round * 137 % 220))).await?);
        }
        took.sort();
        let how = if hang { "hang" } else { "refuse" };
        let (median, last) = (took[took.len() / 2], took.len() - 1);
        println!(
            "{how}: from failure to transition, {rounds} rounds: median {median:?}, {:?} to {:?}",
            took[0], took[last]
        );
    }
    Ok(())
}

async fn one_failure(hang: bool, after: Duration) -> Result<Duration, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let at = listener.local_addr()?;
    let short = Duration::from_millis(200);
    let monitor = Arc::new(http(at.port(), "/".to_owned(), short, short, 2));
    let (sender, mut transitions) = mpsc::channel(16);
    let checker = Checker::start(CheckerSettings::default(), sender);
    let (stop, mut stopped) = mpsc::channel::<()>(1);
    let server = tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = stopped.recv() => return listener,
                Ok((stream, _)) = listener.accept() => drop(tokio::spawn(answer(stream))),
            }
        }
    });
    checker.set_targets(vec![target(at.ip(), &monitor)?], vec![]).await;
    wait_for(HealthStatus::Up, &mut transitions).await?;
    sleep(Duration::from_secs(1) + after).await;
    drop(stop);
    // Without the listener the target refuses; with it the kernel accepts and nothing answers.
    let listener = server.await?;
    let start = Instant::now();
    let kept = hang.then_some(listener);
    wait_for(HealthStatus::Down, &mut transitions).await?;
    let took = start.elapsed();
    drop(kept);
    Ok(took)
}

async fn wait_for(status: HealthStatus, transitions: &mut Receiver<HealthTransition>) -> Result<(), Error> {
    loop {
        let transition = timeout(Duration::from_secs(10), transitions.recv()).await?.ok_or("the checker ended")?;
        if transition.to == status {
            return Ok(());
        }
    }
}
