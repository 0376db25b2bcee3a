//! One server replaces another, with real descriptors over a real unix socket, while clients send queries.

use std::{
    collections::BTreeSet,
    os::unix::net::{UnixListener, UnixStream},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use super::{
    super::handover::{HandoverError, HandoverSet, Offer, Release, take},
    *,
};

/// One generation of the daemon: its server, and its offer to the next one.
struct Generation {
    server: Server,
    offer: Offer,
}

impl Generation {
    fn new(sockets: Sockets, path: &Path) -> Self {
        let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
        let offer = Offer::listen(path, HandoverSet { sockets: server.sockets().unwrap(), others: vec![] }).unwrap();
        Self { server, offer }
    }

    /// Replaces this generation and returns the next one.
    async fn replaced(mut self, path: &Path) -> Self {
        let path = path.to_owned();
        let next = tokio::spawn(async move {
            let mut taken = take(&path, own_user()).unwrap().expect("a process to replace");
            let addresses = taken.set.sockets.addresses();
            let sockets = std::mem::take(&mut taken.set.sockets).complete(&addresses, 2).unwrap();
            let server = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
            assert_eq!(taken.complete().await.unwrap(), Release::Orderly);
            let offer =
                Offer::listen(&path, HandoverSet { sockets: server.sockets().unwrap(), others: vec![] }).unwrap();
            Self { server, offer }
        });
        let successor = self.offer.successor().await;
        let leaving = tokio::spawn(self.server.leave(PATIENCE));
        successor.release().unwrap();
        drop(self.offer);
        let next = next.await.unwrap();
        leaving.await.unwrap();
        next
    }
}

/// Returns the user of this process, which also owns the folders of these tests.
fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// Clients that send queries until they are stopped; each returns its number of answers.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<usize>>,
}

impl Load {
    fn start(clients: impl IntoIterator<Item = Box<dyn FnMut(usize) + Send>>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let start = |mut ask: Box<dyn FnMut(usize) + Send>| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || (0..).take_while(|_| !stop.load(Ordering::Relaxed)).map(&mut ask).count())
        };
        Self { clients: clients.into_iter().map(start).collect(), stop }
    }

    fn stop(self) -> Vec<usize> {
        self.stop.store(true, Ordering::Relaxed);
        self.clients.into_iter().map(|client| client.join().expect("no query was lost")).collect()
    }
}

/// Sends one query after the other, each after the answer to the one before.
fn one_after_another(at: SocketAddr) -> Box<dyn FnMut(usize) + Send> {
    let socket = client("127.0.0.1:0");
    let mut answer = [0; 64];
    Box::new(move |number| {
        socket.send_to(&packet(number as u16, "closed loop"), at).unwrap();
        let length = socket.recv(&mut answer).expect("an answer");
        assert_eq!(id(&answer[..length]), number as u16);
    })
}

/// Sends 50 queries from different sockets, then receives all answers.
fn in_bursts(at: SocketAddr) -> Box<dyn FnMut(usize) + Send> {
    let sockets: Vec<_> = (0..50).map(|_| client("127.0.0.1:0")).collect();
    let mut answer = [0; 64];
    Box::new(move |number| {
        for socket in &sockets {
            socket.send_to(&packet(number as u16, "burst"), at).unwrap();
        }
        for socket in &sockets {
            let length = socket.recv(&mut answer).expect("an answer");
            assert_eq!(id(&answer[..length]), number as u16);
        }
    })
}

/// Opens a connection for each query.
fn by_new_connections(at: SocketAddr) -> Box<dyn FnMut(usize) + Send> {
    Box::new(move |number| assert_eq!(ask_stream(&mut connect(at), number as u16), Some(number as u16)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacement_loses_no_query_of_a_closed_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 2).unwrap();
    let at = sockets.addresses()[0];
    let mut generation = Generation::new(sockets, &path);
    let load = Load::start([one_after_another(at), one_after_another(at), in_bursts(at), by_new_connections(at)]);
    for _ in 0..6 {
        generation = generation.replaced(&path).await;
        assert_eq!(generation.server.sockets().unwrap().addresses(), [at]);
    }
    let answered = load.stop();
    assert!(answered.iter().all(|&count| count > 3), "{answered:?}");
    drop(generation.offer);
    generation.server.drain(PATIENCE).await;
    assert!(!path.exists(), "the last generation removes the unix socket");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacement_loses_no_query_of_an_open_loop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 2).unwrap();
    let at = sockets.addresses()[0];
    let mut generation = Generation::new(sockets, &path);
    let sender = client("127.0.0.1:0");
    let receiver = sender.try_clone().unwrap();
    // One query per millisecond without waiting for answers, from before the first replacement until after the last.
    let sender = Load::start([Box::new(move |number: usize| {
        sender.send_to(&packet(number as u16, "open loop"), at).unwrap();
        std::thread::park_timeout(Duration::from_millis(1));
    }) as Box<dyn FnMut(usize) + Send>]);
    let collector = std::thread::spawn(move || {
        receiver.set_read_timeout(Some(PATIENCE / 5)).unwrap();
        let mut answer = [0; 64];
        std::iter::from_fn(|| receiver.recv(&mut answer).ok().map(|_| id(&answer))).collect::<BTreeSet<_>>()
    });
    for _ in 0..4 {
        generation = generation.replaced(&path).await;
    }
    let sent: BTreeSet<u16> = (0..sender.stop()[0] as u16).collect();
    let answered = collector.join().unwrap();
    assert!(sent == answered, "lost {:?} of {}", sent.difference(&answered).collect::<Vec<_>>(), sent.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_process_that_dies_before_ready_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap();
    let at = sockets.addresses()[0];
    let generation = Generation::new(sockets, &path);
    for _ in 0..3 {
        let taken = until_some(|| match take(&path, own_user()) {
            Ok(taken) => taken,
            // The last attempt has not ended yet.
            Err(HandoverError::Refused { .. }) => None,
            Err(error) => panic!("{error}"),
        });
        drop(taken);
        one_after_another(at)(1);
        assert_eq!(ask_stream(&mut connect(at), 2), Some(2));
    }
    until("the end of the last attempt", || matches!(take(&path, own_user()), Ok(Some(_))));
    let taken = until_some(|| take(&path, own_user()).ok().flatten());
    drop(taken);
    let Generation { server, mut offer } = generation;
    let none = tokio::time::timeout(Duration::from_millis(50), offer.successor()).await;
    assert!(none.is_err(), "none of them became a successor");
    assert_eq!(server.counters().stats().udp.answered, 3);
}

fn until_some<T>(mut made: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    until("a value", || {
        found = made();
        found.is_some()
    });
    found.unwrap()
}

#[tokio::test]
async fn second_new_process_is_refused_while_the_first_prepares() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let generation = Generation::new(Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap(), &path);
    let _first = take(&path, own_user()).unwrap().expect("a process to replace");
    let error = take(&path, own_user()).unwrap_err();
    let expected = format!("process {} is replacing it already; wait for that one or end it", std::process::id());
    assert!(error.to_string().ends_with(&expected), "{error}");
    drop(generation);
}

#[tokio::test]
async fn take_without_a_running_process_returns_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    assert!(take(&path, own_user()).unwrap().is_none());
    drop(UnixListener::bind(&path).unwrap());
    assert!(take(&path, own_user()).unwrap().is_none(), "the socket was left by a process that was killed");
    let generation = Generation::new(Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap(), &path);
    assert!(take(&path, own_user()).unwrap().is_some());
    drop(generation);
    assert!(!path.exists());
}

#[tokio::test]
async fn sockets_survive_a_predecessor_that_ends_before_the_release() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let sockets = Sockets::bind(&[address("127.0.0.1:0")], 2).unwrap();
    let at = sockets.addresses()[0];
    let Generation { server, offer } = Generation::new(sockets, &path);
    let mut taken = take(&path, own_user()).unwrap().expect("a process to replace");
    // The old process ends while the new one still prepares.
    drop(offer);
    server.drain(PATIENCE).await;
    let queries: Vec<_> = (0..20).map(|_| client("127.0.0.1:0")).collect();
    for socket in &queries {
        socket.send_to(&packet(5, "meanwhile"), at).unwrap();
    }
    let sockets = std::mem::take(&mut taken.set.sockets).complete(&[at], 2).unwrap();
    let _next = Server::start_with(sockets, TcpSettings::default(), || Echo).unwrap();
    assert_eq!(taken.complete().await.unwrap(), Release::PredecessorGone);
    for socket in queries {
        socket.recv(&mut [0; 64]).expect("queries that were queued meanwhile are answered");
    }
}

#[tokio::test]
async fn hundreds_of_sockets_and_a_named_descriptor_are_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let sockets = Sockets::bind(&[address("127.0.0.1:0"), address("127.0.0.2:0")], 120).unwrap();
    let lock = tempfile::tempfile().unwrap();
    let set = HandoverSet { sockets: sockets.try_clone().unwrap(), others: vec![("lock".to_owned(), lock.into())] };
    let _offer = Offer::listen(&path, set).unwrap();
    let taken = take(&path, own_user()).unwrap().expect("a process to replace");
    assert_eq!(taken.set.sockets.addresses(), sockets.addresses());
    assert!(taken.set.sockets.bound.iter().all(|bound| bound.udp.len() == 120 && bound.tcp.len() == 1));
    assert_eq!(taken.set.others[0].0, "lock");
    assert_eq!(taken.predecessor.pid, std::process::id() as i32);
}

#[tokio::test]
async fn invalid_messages_do_not_block_a_later_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let _generation = Generation::new(Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap(), &path);
    let nonsense: [&[u8]; 4] = [b"", b"\xff\xff\xff\xff", b"\0\0\0\x02{}", b"GET / HTTP/1.1\r\n\r\n"];
    for octets in nonsense {
        let mut stream = UnixStream::connect(&path).unwrap();
        // May fail: the connection is refused while the last attempt has not ended yet.
        let _ = stream.write_all(octets);
        drop(stream);
        let taken = until_some(|| take(&path, own_user()).ok().flatten());
        drop(taken);
        until("the offer is free again", || take(&path, own_user()).is_ok());
    }
}

#[tokio::test]
async fn socket_of_another_user_is_refused_by_root_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handover.sock");
    let _generation = Generation::new(Sockets::bind(&[address("127.0.0.1:0")], 1).unwrap(), &path);
    // The folder belongs to another user than the process that listens in it.
    let error = take(&path, own_user() + 1).unwrap_err().to_string();
    assert!(error.contains("taken over only from user"), "{error}");
}
