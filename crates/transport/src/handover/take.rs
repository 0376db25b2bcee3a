//! The new process: takes the sockets of the running one.

use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::unistd::geteuid;

use super::{
    HandoverError, Parcel, Peer,
    descriptors::unpack,
    frames,
    v1::{Answer, Hello, PROTOCOL, Say},
};

/// The running process answers this fast, or is stuck.
const WORDS_WITHIN: Duration = Duration::from_secs(10);

/// Sockets of a running process, which serves them on until [`Taken::complete`].
#[derive(Debug)]
pub struct Taken {
    /// What it handed over.
    pub parcel: Parcel,
    /// The process being replaced.
    pub predecessor: Peer,
    stream: UnixStream,
    path: PathBuf,
}

/// How the running process gave way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It stopped receiving and brought its state to rest.
    Orderly,
    /// It ended before it could say so; what it left is as after a crash.
    PredecessorGone,
}

/// Asks the process that listens at `path` for its sockets; none if there is no such process. Blocks for 10 s at most.
///
/// The caller then loads everything, starts serving, and calls [`Taken::complete`]. Dropping what was taken instead leaves
/// the running process as it was.
pub fn take(path: &Path) -> Result<Option<Taken>, HandoverError> {
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(source) => return Err(HandoverError::Broken { path: path.to_owned(), source }),
    };
    let broken = |source| HandoverError::Broken { path: path.to_owned(), source };
    let (pid, uid) = frames::peer(&stream).map_err(broken)?;
    let mine = geteuid();
    if uid != mine.as_raw() && !mine.is_root() {
        return Err(HandoverError::Stranger { path: path.to_owned(), uid });
    }
    match ask(&stream).map_err(broken)? {
        Ok((version, parcel)) => {
            Ok(Some(Taken { parcel, predecessor: Peer { pid, version }, stream, path: path.to_owned() }))
        }
        Err(reason) => Err(HandoverError::Refused { path: path.to_owned(), reason }),
    }
}

/// The old process' version and parcel, or its reason not to give it.
fn ask(stream: &UnixStream) -> io::Result<Result<(String, Parcel), String>> {
    stream.set_read_timeout(Some(WORDS_WITHIN))?;
    stream.set_write_timeout(Some(WORDS_WITHIN))?;
    let hello = Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() };
    match frames::send(stream, serde_json::to_value(hello)?) {
        // It closed after a refusal, which can be read all the same.
        Err(error) if !is_gone(&error) => return Err(error),
        _ => {}
    }
    match serde_json::from_value(frames::receive(stream)?)? {
        Say::Offer { version, descriptors } => {
            let received = frames::receive_descriptors(stream, descriptors.len())?;
            Ok(Ok((version, unpack(descriptors, received)?)))
        }
        Say::Refused { reason } | Say::Withdrawn { reason } => Ok(Err(reason)),
        Say::Released => Err(frames::invalid("an answer out of order")),
    }
}

impl Taken {
    /// Tells the running process that this one serves, and waits until it has given way.
    ///
    /// There is no time limit: this process serves meanwhile, and the old one is bound to go. An error means that it is
    /// not, and serves on: this process should end.
    pub async fn complete(self) -> Result<Release, HandoverError> {
        let path = self.path.clone();
        let waiting = tokio::task::spawn_blocking(move || self.complete_blocking());
        let ended = |error| HandoverError::Broken { path, source: io::Error::other(error) };
        waiting.await.map_err(ended)?
    }

    fn complete_blocking(self) -> Result<Release, HandoverError> {
        let exchange = || {
            self.stream.set_read_timeout(None)?;
            frames::send(&self.stream, serde_json::to_value(Answer::Ready)?)?;
            Ok(serde_json::from_value(frames::receive(&self.stream)?)?)
        };
        match exchange() {
            Ok(Say::Released) => Ok(Release::Orderly),
            Ok(Say::Withdrawn { reason } | Say::Refused { reason }) => Err(HandoverError::Withdrawn { reason }),
            Ok(Say::Offer { .. }) => Err(self.broken(frames::invalid("an answer out of order"))),
            Err(error) if is_gone(&error) => match self.last_words() {
                Some(reason) => Err(HandoverError::Withdrawn { reason }),
                None => Ok(Release::PredecessorGone),
            },
            Err(error) => Err(self.broken(error)),
        }
    }

    /// What the old process said before it closed, if `ready` could not even be sent.
    fn last_words(&self) -> Option<String> {
        match serde_json::from_value(frames::receive(&self.stream).ok()?).ok()? {
            Say::Withdrawn { reason } => Some(reason),
            _ => None,
        }
    }

    fn broken(&self, source: io::Error) -> HandoverError {
        HandoverError::Broken { path: self.path.clone(), source }
    }
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}
