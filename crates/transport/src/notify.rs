//! Tells a service manager how the process stands (sd_notify(3)): lines of text to a datagram socket it names in
//! `NOTIFY_SOCKET`. Without a service manager nothing happens.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// The way to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    /// Where it listens.
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// Notifies the socket of that name: a path, or an abstract name behind an `@`. None, or a name that is neither, is no
    /// service manager. The caller asks the environment for `NOTIFY_SOCKET`.
    pub fn new(socket: Option<OsString>) -> Self {
        let to = socket.and_then(|name| Self::connect(&name).ok());
        Self { to }
    }

    fn connect(name: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        };
        let socket = UnixDatagram::unbound()?;
        // A service manager that is stuck must not hold up this process.
        socket.set_nonblocking(true)?;
        Ok((socket, address))
    }

    /// Serving.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Draining; the process ends soon.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Answering what was accepted");
    }

    /// This process replaces the one that the service manager knows.
    pub fn main_process(&self, pid: u32) {
        self.send(&format!("MAINPID={pid}"));
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.to
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            tracing::debug!(%error, "service manager not notified");
        }
    }
}

/// A line break would begin another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
