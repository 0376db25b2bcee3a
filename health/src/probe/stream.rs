//! The TCP connection of a probe, with a limit of bytes read, closed by a reset.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
};

use super::failure::{Failure, ReadLimitExceeded};

/// Opens a connection from which at most `read_max` bytes are read.
///
/// Closing it sends a reset. At 1,000 probes per second, 60 s of TIME_WAIT would keep 60,000 connections, here or at the
/// targets.
pub(crate) async fn connect(address: SocketAddr, read_max: usize) -> Result<LimitedStream, Failure> {
    let open = async {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_zero_linger()?;
        socket.set_nodelay(true)?;
        let stream = socket.connect(address).await?;
        // If the kernel picks the probed port of this machine as the local port, TCP connects the socket to itself
        // (RFC 9293 section 3.5, simultaneous open).
        if stream.local_addr()? == address {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(stream)
    };
    let stream = open.await.map_err(|error: io::Error| Failure::of(&error))?;
    Ok(LimitedStream { stream, left: read_max, read_max })
}

/// A connection whose reads fail with [`ReadLimitExceeded`] after a number of bytes.
#[derive(Debug)]
pub(crate) struct LimitedStream {
    stream: TcpStream,
    /// Number of bytes that may still be read.
    left: usize,
    read_max: usize,
}

impl AsyncRead for LimitedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::Error::other(ReadLimitExceeded(self.read_max))));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.left = self.left.saturating_sub(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
