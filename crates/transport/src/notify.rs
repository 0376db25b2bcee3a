//! Notifies a service manager of the state of the process (sd_notify(3)): lines of text to the datagram socket in
//! `NOTIFY_SOCKET`. Without a service manager it does nothing.

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

/// Connection to the service manager, if there is one.
#[derive(Debug, Default)]
pub struct Notifier {
    /// Socket, and the address of the service manager.
    to: Option<(UnixDatagram, SocketAddr)>,
}

impl Notifier {
    /// Returns a notifier for a socket: a path, or an abstract name after `@`. `None` or any other name means that there is no service
    /// manager. The caller reads `NOTIFY_SOCKET` from the environment.
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
        // A service manager that hangs must not block this process.
        socket.set_nonblocking(true)?;
        Ok((socket, address))
    }

    /// Reports that the process serves.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// Reports that the process drains and will end.
    pub fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=Answering what was accepted");
    }

    /// Reports the process that replaces this one.
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

/// Replaces line breaks, which would start another assignment.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
