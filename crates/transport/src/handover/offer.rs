//! The running process: waits for the one that replaces it.

use std::{
    fmt, fs, io,
    net::Shutdown,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use fairway_telemetry::logs::Trace;
use nix::unistd::geteuid;
use tokio::sync::mpsc;

use super::{
    HandoverError, Parcel, Peer,
    descriptors::pack,
    frames,
    v1::{Answer, Hello, PROTOCOL, Say},
};

/// A peer that says nothing is given up after this long.
const WORDS_WITHIN: Duration = Duration::from_secs(5);

/// A new process that is not ready after this long does not get the sockets.
const READY_WITHIN: Duration = Duration::from_secs(300);

/// Waits for a process that replaces this one. Dropping it ends the waiting; a replacer that is still preparing then finds
/// this process gone, and serves in its place once it is ready.
///
/// It holds copies of the sockets: drop it before draining the server, or the ports stay open until the process ends.
pub struct Offer {
    place: Place,
    state: Arc<State>,
    successors: mpsc::Receiver<Successor>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    listener: UnixListener,
    parcel: Parcel,
    /// The conversation with a replacer; one at a time, and none after a successful one.
    talk: Mutex<Talk>,
    successors: mpsc::Sender<Successor>,
}

#[derive(Default)]
enum Talk {
    /// Nobody replaces this process.
    #[default]
    Idle,
    /// This process does.
    With(i32, UnixStream),
    /// The offer is over.
    Over,
}

/// A process that serves already and waits for this one to go.
#[derive(Debug)]
pub struct Successor {
    /// Who it is.
    pub peer: Peer,
    /// Ties the log lines of the hand-over together.
    pub trace: Trace,
    stream: UnixStream,
    place: Place,
}

/// The file of a unix socket: its path, and what tells it from a later one at the same path.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    inode: u64,
}

impl Place {
    /// Removes the file, unless another process has put its own there.
    fn clear(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Offer").field("path", &self.place.path).finish_non_exhaustive()
    }
}

impl Offer {
    /// Listens at `path`, which only this user may use. The caller owns the folder: what is left there from an earlier
    /// process is removed.
    pub fn listen(path: &Path, parcel: Parcel) -> Result<Self, HandoverError> {
        let (sender, successors) = mpsc::channel(1);
        let listen = || {
            let count = pack(&parcel).1.len();
            if count > frames::DESCRIPTORS_MAX {
                return Err(frames::invalid("more sockets than can be handed over"));
            }
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            let state = Arc::new(State { listener, parcel, talk: Mutex::default(), successors: sender });
            let place = Place { path: path.to_owned(), inode: fs::symlink_metadata(path)?.ino() };
            let accepting = (Arc::clone(&state), place.clone());
            let thread = thread::Builder::new()
                .name("fairway-handover".to_owned())
                .spawn(move || accept(&accepting.0, &accepting.1))?;
            Ok((place, state, thread))
        };
        match listen() {
            Ok((place, state, thread)) => Ok(Self { place, state, successors, thread: Some(thread) }),
            Err(source) => Err(HandoverError::Listen { path: path.to_owned(), source }),
        }
    }

    /// Waits for a process that is ready to serve in this one's place.
    ///
    /// From then on this process has to go: stop receiving ([`super::super::Server::leave`]), bring all state to rest,
    /// [`Successor::release`].
    pub async fn successor(&mut self) -> Successor {
        match self.successors.recv().await {
            Some(successor) => successor,
            // The sender lives as long as the state, which is ours.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let talk = std::mem::replace(&mut *lock(&self.state.talk), Talk::Over);
        if let Talk::With(_, stream) = talk {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accepting thread, which then sees that the offer is over.
        let _ = rustix::net::shutdown(&self.state.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.place.clear();
    }
}

impl Successor {
    /// Tells the successor that the data folder is its own now. The path is free for its own offer.
    pub fn release(self) -> io::Result<()> {
        self.place.clear();
        frames::send(&self.stream, serde_json::to_value(Say::Released)?)
    }
}

fn lock(talk: &Mutex<Talk>) -> std::sync::MutexGuard<'_, Talk> {
    talk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts until the offer is over. Conversations are in threads of their own, so that a second replacer is told no at once.
fn accept(state: &Arc<State>, place: &Place) {
    loop {
        let stream = match state.listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if matches!(*lock(&state.talk), Talk::Over) => return,
            Err(error) => {
                tracing::warn!(%error, "handover connection not accepted");
                thread::park_timeout(Duration::from_secs(1));
                continue;
            }
        };
        if let Err(error) = begin(state, stream, place) {
            tracing::warn!(%error, "handover refused");
        }
    }
}

/// Lets one replacer in, if it may and there is no other.
fn begin(state: &Arc<State>, stream: UnixStream, place: &Place) -> io::Result<()> {
    stream.set_read_timeout(Some(WORDS_WITHIN))?;
    stream.set_write_timeout(Some(WORDS_WITHIN))?;
    let (pid, uid) = frames::peer(&stream)?;
    let mine = geteuid().as_raw();
    if uid != mine && uid != 0 {
        return refuse(&stream, format!("it runs as user {mine}, the replacement as user {uid}; run both as one user"));
    }
    let refusal = {
        let mut talk = lock(&state.talk);
        match &*talk {
            Talk::Idle => {
                *talk = Talk::With(pid, stream.try_clone()?);
                None
            }
            Talk::With(other, _) => {
                Some(format!("process {other} is replacing it already; wait for that one or end it"))
            }
            Talk::Over => Some("it is ending".to_owned()),
        }
    };
    if let Some(reason) = refusal {
        return refuse(&stream, reason);
    }
    let (talking, place) = (Arc::clone(state), place.clone());
    let trace = Trace::new();
    let spawned = thread::Builder::new().name("fairway-handover".to_owned()).spawn(move || {
        let _span = trace.span().entered();
        lend(&talking, true);
        match converse(&talking, &stream, pid) {
            Ok(peer) => {
                tracing::info!(pid, version = peer.version, "handover completed: replaced by a new process");
                *lock(&talking.talk) = Talk::Over;
                // There is room for the one successor there can be; if nobody waits for it, this process is ending anyway.
                let _ = talking.successors.try_send(Successor { peer, trace, stream, place });
            }
            Err(error) => {
                tracing::warn!(pid, %error, "handover failed: the new process did not become ready");
                let mut talk = lock(&talking.talk);
                // Where this process broke off because it is ending, the other one goes on with the sockets.
                if matches!(*talk, Talk::With(..)) {
                    lend(&talking, false);
                    *talk = Talk::Idle;
                }
            }
        }
    });
    if spawned.is_err() {
        *lock(&state.talk) = Talk::Idle;
    }
    spawned.map(|_| ())
}

/// Marks every socket as served by another process too, or no longer.
fn lend(state: &State, lent: bool) {
    state.parcel.sockets.bound.iter().for_each(|bound| bound.shared.lend(lent));
}

fn refuse(stream: &UnixStream, reason: String) -> io::Result<()> {
    frames::send(stream, serde_json::to_value(Say::Refused { reason })?)
}

/// From the first word to `ready`.
fn converse(state: &State, stream: &UnixStream, pid: i32) -> io::Result<Peer> {
    let hello: Hello = serde_json::from_value(frames::receive(stream)?)?;
    if hello.protocol != PROTOCOL {
        let (version, theirs) = (env!("CARGO_PKG_VERSION"), hello.protocol);
        refuse(
            stream,
            format!("version {version} hands over by protocol {PROTOCOL}, not {theirs}; stop it, then start"),
        )?;
        return Err(frames::invalid("another protocol"));
    }
    tracing::info!(pid, version = hello.version, "handover started");
    let (descriptions, descriptors) = pack(&state.parcel);
    let offer = Say::Offer { version: env!("CARGO_PKG_VERSION").to_owned(), descriptors: descriptions };
    frames::send(stream, serde_json::to_value(offer)?)?;
    frames::send_descriptors(stream, &descriptors)?;
    stream.set_read_timeout(Some(READY_WITHIN))?;
    match frames::receive(stream) {
        Ok(answer) => {
            let Answer::Ready = serde_json::from_value(answer)?;
            Ok(Peer { pid, version: hello.version })
        }
        Err(error) => {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                let reason = format!("not ready within {READY_WITHIN:?}");
                frames::send(stream, serde_json::to_value(Say::Withdrawn { reason })?)?;
            }
            Err(error)
        }
    }
}
