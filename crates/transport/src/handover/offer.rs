//! The running process: waits for the process that replaces it.

use std::{
    fs, io,
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
    HandoverError, HandoverSet, Peer,
    descriptors::pack,
    frames, invalid,
    v1::{self, Hello, NewProcessMessage, OldProcessMessage, PROTOCOL},
};

/// Timeout of each message of the peer.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for the new process to load and become ready. Reading a million names takes seconds; probes and slow stores have ample time.
const READY_TIMEOUT: Duration = Duration::from_secs(300);

/// Waits for a process that replaces this one. Dropping it ends the wait; a new process that is still preparing then finds this process
/// gone, and serves in its place once it is ready.
///
/// It holds duplicates of the sockets: drop it before draining the server, or the ports stay open until the process ends.
pub struct Offer {
    state: Arc<State>,
    successors: mpsc::Receiver<Successor>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    listener: UnixListener,
    file: SocketFile,
    set: HandoverSet,
    /// The session with a new process: one at a time, and none after a successful one.
    session: Mutex<Session>,
    successors: mpsc::Sender<Successor>,
}

#[derive(Default)]
enum Session {
    /// No process is replacing this one.
    #[default]
    Idle,
    /// The process with this id is replacing this one.
    Active(i32, UnixStream),
    /// The offer has ended.
    Closed,
}

/// A process that already serves and waits for this one to end.
#[derive(Debug)]
pub struct Successor {
    /// The process.
    pub peer: Peer,
    /// Trace id of the log lines of the hand-over.
    pub trace: Trace,
    stream: UnixStream,
    file: SocketFile,
}

/// The file of a unix socket: its path, and the inode that distinguishes it from a later one at the same path.
#[derive(Clone, Debug)]
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    /// Removes the file, unless another process has replaced it with its own.
    fn remove(&self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|file| file.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Offer {
    /// Listens at `path`, with access for this user only. Removes a socket that an earlier process left there; the caller must own the
    /// folder.
    pub fn listen(path: &Path, set: HandoverSet) -> Result<Self, HandoverError> {
        Self::start(path, set).map_err(|source| HandoverError::Listen { path: path.to_owned(), source })
    }

    fn start(path: &Path, set: HandoverSet) -> io::Result<Self> {
        if pack(&set).1.len() > frames::DESCRIPTORS_MAX {
            return Err(invalid("more than 4,096 sockets"));
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
        let file = SocketFile { path: path.to_owned(), inode: fs::symlink_metadata(path)?.ino() };
        let (sender, successors) = mpsc::channel(1);
        let state = Arc::new(State { listener, file, set, session: Mutex::default(), successors: sender });
        let accepting = Arc::clone(&state);
        let thread = thread::Builder::new().name("fairway-handover".to_owned()).spawn(move || accept(&accepting))?;
        Ok(Self { state, successors, thread: Some(thread) })
    }

    /// Waits for a process that is ready to replace this one.
    ///
    /// This process then has to end: stop receiving ([`super::super::Server::leave`]), save all state, call [`Successor::release`].
    pub async fn successor(&mut self) -> Successor {
        match self.successors.recv().await {
            Some(successor) => successor,
            // Unreachable: the sender lives in `state`, which this value owns.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let session = std::mem::replace(&mut *lock(&self.state.session), Session::Closed);
        if let Session::Active(_, stream) = session {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // Wakes the accepting thread, which then sees that the offer has ended.
        let _ = rustix::net::shutdown(&self.state.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.state.file.remove();
    }
}

impl Successor {
    /// Reports to the successor that the data folder is free, and removes the unix socket for its own offer.
    pub fn release(self) -> io::Result<()> {
        self.file.remove();
        v1::send(&self.stream, &OldProcessMessage::Released)
    }
}

fn lock(session: &Mutex<Session>) -> std::sync::MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections until the offer ends. Each session has its own thread, so that a second process is refused at once.
fn accept(state: &Arc<State>) {
    loop {
        let stream = match state.listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if matches!(*lock(&state.session), Session::Closed) => return,
            Err(error) => {
                tracing::warn!(%error, "handover connection not accepted");
                thread::park_timeout(Duration::from_secs(1));
                continue;
            }
        };
        if let Err(error) = begin(state, stream) {
            tracing::warn!(%error, "handover refused");
        }
    }
}

/// Starts the session of a new process, if its user is allowed and there is no other session.
fn begin(state: &Arc<State>, stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
    stream.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
    let (pid, uid) = frames::peer(&stream)?;
    let mine = geteuid().as_raw();
    if uid != mine && uid != 0 {
        return refuse(&stream, format!("it runs as user {mine}, the replacement as user {uid}; run both as one user"));
    }
    let refusal = {
        let mut session = lock(&state.session);
        match &*session {
            Session::Idle => {
                *session = Session::Active(pid, stream.try_clone()?);
                None
            }
            Session::Active(other, _) => {
                Some(format!("process {other} is replacing it already; wait for that one or end it"))
            }
            Session::Closed => Some("it is ending".to_owned()),
        }
    };
    if let Some(reason) = refusal {
        return refuse(&stream, reason);
    }
    let shared_state = Arc::clone(state);
    let trace = Trace::new();
    let spawned = thread::Builder::new().name("fairway-handover".to_owned()).spawn(move || {
        let _span = trace.span().entered();
        set_lent(&shared_state, true);
        match negotiate(&shared_state, &stream, pid) {
            Ok(peer) => {
                tracing::info!(pid, version = peer.version, "handover completed: replaced by a new process");
                *lock(&shared_state.session) = Session::Closed;
                // The channel has capacity for the only successor. If nobody receives it, this process is ending already.
                let file = shared_state.file.clone();
                let _ = shared_state.successors.try_send(Successor { peer, trace, stream, file });
            }
            Err(error) => {
                tracing::warn!(pid, %error, "handover failed: the new process did not become ready");
                let mut session = lock(&shared_state.session);
                // If this process ended the session because it is ending, the new process keeps the sockets.
                if matches!(*session, Session::Active(..)) {
                    set_lent(&shared_state, false);
                    *session = Session::Idle;
                }
            }
        }
    });
    if spawned.is_err() {
        *lock(&state.session) = Session::Idle;
    }
    spawned.map(|_| ())
}

/// Records for every socket if another process holds it too.
fn set_lent(state: &State, is_lent: bool) {
    state.set.sockets.bound.iter().for_each(|bound| bound.shared.set_lent(is_lent));
}

fn refuse(stream: &UnixStream, reason: String) -> io::Result<()> {
    v1::send(stream, &OldProcessMessage::Refused { reason })
}

/// Exchanges the messages from `hello` to `ready`.
fn negotiate(state: &State, stream: &UnixStream, pid: i32) -> io::Result<Peer> {
    let hello: Hello = v1::receive(stream)?;
    if hello.protocol != PROTOCOL {
        let (version, theirs) = (env!("CARGO_PKG_VERSION"), hello.protocol);
        refuse(
            stream,
            format!("version {version} hands over by protocol {PROTOCOL}, not {theirs}; stop it, then start"),
        )?;
        return Err(invalid("the protocols differ"));
    }
    tracing::info!(pid, version = hello.version, "handover started");
    let (descriptions, descriptors) = pack(&state.set);
    let offer = OldProcessMessage::Offer { version: env!("CARGO_PKG_VERSION").to_owned(), descriptors: descriptions };
    v1::send(stream, &offer)?;
    frames::send_descriptors(stream, &descriptors)?;
    stream.set_read_timeout(Some(READY_TIMEOUT))?;
    match v1::receive(stream) {
        Ok(NewProcessMessage::Ready) => Ok(Peer { pid, version: hello.version }),
        Err(error) => {
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                let reason = format!("not ready within {READY_TIMEOUT:?}");
                v1::send(stream, &OldProcessMessage::Withdrawn { reason })?;
            }
            Err(error)
        }
    }
}
