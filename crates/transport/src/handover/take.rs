//! The new process: takes over the sockets of the running one.

use std::{
    io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    HandoverError, HandoverSet, Peer,
    descriptors::unpack,
    frames, invalid,
    v1::{self, Hello, NewProcessMessage, OldProcessMessage, PROTOCOL},
};

/// Timeout of each message. The running process answers at once unless it hangs.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Sockets of a running process, which keeps serving them until [`Taken::complete`].
#[derive(Debug)]
pub struct Taken {
    /// The descriptors.
    pub set: HandoverSet,
    /// The process being replaced.
    pub predecessor: Peer,
    stream: UnixStream,
    path: PathBuf,
}

/// End of the running process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It stopped receiving and saved its state.
    Orderly,
    /// It ended without a message; its files are as after a crash.
    PredecessorGone,
}

/// Requests the sockets of the process of user `owner` that listens at `path`. Returns `None` if there is no such process. Blocks for at most
/// 10 s per message.
///
/// A process of another user is refused, also if this one is root: it could pass a root process sockets of its own choice.
///
/// The caller then loads everything, starts serving, and calls [`Taken::complete`]. If it drops the result instead, the running process
/// continues as before.
pub fn take(path: &Path, owner: u32) -> Result<Option<Taken>, HandoverError> {
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(source) => return Err(HandoverError::Broken { path: path.to_owned(), source }),
    };
    let broken = |source| HandoverError::Broken { path: path.to_owned(), source };
    let (pid, uid) = frames::peer(&stream).map_err(broken)?;
    if uid != owner {
        return Err(HandoverError::OtherUser { path: path.to_owned(), uid, owner });
    }
    match ask(&stream).map_err(broken)? {
        Ok((version, set)) => {
            Ok(Some(Taken { set, predecessor: Peer { pid, version }, stream, path: path.to_owned() }))
        }
        Err(reason) => Err(HandoverError::Refused { path: path.to_owned(), reason }),
    }
}

/// Returns the old process' version and descriptors, or its reason to refuse.
fn ask(stream: &UnixStream) -> io::Result<Result<(String, HandoverSet), String>> {
    stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
    stream.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
    let hello = Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned() };
    match v1::send(stream, &hello) {
        // The old process closed the stream after a refusal, which can still be read.
        Err(error) if !is_gone(&error) => return Err(error),
        _ => {}
    }
    match v1::receive(stream)? {
        OldProcessMessage::Offer { version, descriptors } => {
            let received = frames::receive_descriptors(stream, descriptors.len())?;
            Ok(Ok((version, unpack(descriptors, received)?)))
        }
        OldProcessMessage::Refused { reason } | OldProcessMessage::Withdrawn { reason } => Ok(Err(reason)),
        OldProcessMessage::Released => Err(invalid("message out of order")),
    }
}

impl Taken {
    /// Reports to the running process that this one serves, and waits until that one has stopped.
    ///
    /// There is no time limit, because this process already serves. An error means that the old process keeps serving: this process
    /// should end.
    pub async fn complete(self) -> Result<Release, HandoverError> {
        let path = self.path.clone();
        let waiting = tokio::task::spawn_blocking(move || self.complete_blocking());
        let ended = |error| HandoverError::Broken { path, source: io::Error::other(error) };
        waiting.await.map_err(ended)?
    }

    fn complete_blocking(self) -> Result<Release, HandoverError> {
        let exchange = || {
            self.stream.set_read_timeout(None)?;
            v1::send(&self.stream, &NewProcessMessage::Ready)?;
            v1::receive(&self.stream)
        };
        match exchange() {
            Ok(OldProcessMessage::Released) => Ok(Release::Orderly),
            Ok(OldProcessMessage::Withdrawn { reason } | OldProcessMessage::Refused { reason }) => {
                Err(HandoverError::Withdrawn { reason })
            }
            Ok(OldProcessMessage::Offer { .. }) => Err(self.broken(invalid("message out of order"))),
            Err(error) if is_gone(&error) => match self.final_message() {
                Some(reason) => Err(HandoverError::Withdrawn { reason }),
                None => Ok(Release::PredecessorGone),
            },
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Returns the reason that the old process sent before it closed the stream, if `ready` could not be sent.
    fn final_message(&self) -> Option<String> {
        match v1::receive(&self.stream).ok()? {
            OldProcessMessage::Withdrawn { reason } => Some(reason),
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
