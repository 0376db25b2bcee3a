//! Plays what an API server answered: lists, and then watches with changes of objects, each when it is released. It is no API server: it has
//! one page per list, and refuses the rest.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// Answers of an API server.
#[derive(Clone, Default)]
pub(super) struct Recording {
    /// Bodies of responses by path.
    pub(super) answers: HashMap<String, String>,
    /// Changes after that, in their order.
    pub(super) changes: Arc<Vec<Change>>,
}

/// A change of an object.
pub(super) struct Change {
    /// Path of the list that has the object.
    pub(super) list: &'static str,
    /// Version of the object after it.
    pub(super) version: u64,
    /// The event of a watch, a line of JSON.
    pub(super) event: String,
}

/// A server that plays a recording, until the process ends.
pub(super) struct Player {
    pub(super) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    recording: Recording,
    /// Number of changes that watches have got.
    released: Mutex<usize>,
    is_released: Condvar,
    /// Number of the last change that was sent to a watch.
    sent: AtomicUsize,
}

type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

impl Player {
    /// Starts one with a certificate and its key.
    pub(super) fn start(recording: Recording, certificate: &Path, key: &Path) -> Self {
        let chain = CertificateDer::pem_file_iter(certificate).expect("it is a file");
        let chain = chain.map(|certificate| certificate.expect("PEM")).collect();
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        let tls =
            ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).expect("they belong together");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            recording,
            released: Mutex::default(),
            is_released: Condvar::new(),
            sent: AtomicUsize::new(0),
        });
        let (tls, of_threads) = (Arc::new(tls), Arc::clone(&shared));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (tls, shared) = (Arc::clone(&tls), Arc::clone(&of_threads));
                thread::spawn(move || {
                    let connection = ServerConnection::new(tls).expect("the configuration is valid");
                    let _ = stream.set_nodelay(true);
                    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
                    // The client closes the connection, or the process ends.
                    while shared.answer(&mut stream).is_some() {}
                });
            }
        });
        Self { address, shared }
    }

    /// Returns the number of released changes.
    pub(super) fn released(&self) -> usize {
        *self.shared.released.lock().expect("nobody panics with it")
    }

    /// Returns the number of the last change that was sent to a watch.
    pub(super) fn sent(&self) -> usize {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Sends the next changes to the watches, this many a second, until `count` of them were sent.
    pub(super) fn release(&self, count: usize, a_second: usize) {
        let begun = Instant::now();
        for sent in 1..=count {
            let due = begun + Duration::from_secs_f64(sent as f64 / a_second as f64);
            while let Some(left) = due.checked_duration_since(Instant::now()) {
                thread::park_timeout(left);
            }
            *self.shared.released.lock().expect("nobody panics with it") += 1;
            self.shared.is_released.notify_all();
        }
    }
}

impl Shared {
    /// Answers a request; `None` if the connection has ended.
    fn answer(&self, stream: &mut Stream) -> Option<()> {
        let mut request = String::new();
        stream.read_line(&mut request).ok().filter(|length| *length > 0)?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).ok().filter(|length| *length > 0)?;
        }
        let (path, query) = request.split(' ').nth(1)?.split_once('?').unwrap_or((request.split(' ').nth(1)?, ""));
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        match self.recording.answers.get(path) {
            None => respond(stream, "404 Not Found", &refusal(404)),
            // The client lists in pages then, as with an API server before 1.32.
            Some(_) if parameter("sendInitialEvents").is_some() => {
                respond(stream, "422 Unprocessable Entity", &refusal(422))
            }
            Some(_) if parameter("watch").is_some() => {
                let number = |name| parameter(name).and_then(|value| value.parse().ok()).unwrap_or_default();
                self.watch(stream, path, number("resourceVersion"), Duration::from_secs(number("timeoutSeconds")))
            }
            Some(body) => respond(stream, "200 OK", body),
        }
    }

    /// Sends the changes of a list after a version as they are released, for this time.
    fn watch(&self, stream: &mut Stream, list: &str, after: u64, time: Duration) -> Option<()> {
        let (end, mut seen) = (Instant::now() + time, 0);
        send(stream, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let released = self.released.lock().expect("nobody panics with it");
            let waited = self.is_released.wait_timeout_while(released, left, |released| *released == seen);
            let released = *waited.expect("nobody panics with it").0;
            for (change, number) in self.recording.changes[seen..released].iter().zip(seen + 1..) {
                if change.list == list && change.version > after {
                    send(stream, &format!("{:x}\r\n{}\r\n", change.event.len(), change.event))?;
                    self.sent.fetch_max(number, Ordering::Relaxed);
                }
            }
            seen = released;
        }
        send(stream, "0\r\n\r\n")
    }
}

/// Returns a refusal, as the API server writes it.
fn refusal(code: u16) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"not recorded","code":{code}}}"#
    )
}

fn respond(stream: &mut Stream, status: &str, body: &str) -> Option<()> {
    let length = body.len();
    send(
        stream,
        &format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
}

fn send(stream: &mut Stream, text: &str) -> Option<()> {
    let stream = stream.get_mut();
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).ok()
}
