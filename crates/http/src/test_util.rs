//! An address that does not answer, for tests of outbound calls.

use std::{
    net::Ipv6Addr,
    time::{Duration, Instant},
};

use tokio::{
    net::{TcpListener, TcpSocket},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};

/// A port of `::1` whose queue of connections is full and never read: connections to it are neither accepted nor refused. `localhost` has one more address.
#[derive(Debug)]
pub struct BlackHole {
    _listener: TcpListener,
    _connections: Vec<JoinHandle<()>>,
}

impl BlackHole {
    /// Makes `port` a black hole.
    ///
    /// # Panics
    /// If the port is in use.
    pub async fn new(port: u16) -> Self {
        let address = (Ipv6Addr::LOCALHOST, port).into();
        let socket = TcpSocket::new_v6().expect("this machine has IPv6");
        socket.bind(address).expect("the port is free");
        let listener = socket.listen(1).expect("the socket is bound");
        let mut connections = Vec::new();
        loop {
            let (connected, outcome) = oneshot::channel();
            connections.push(tokio::spawn(async move {
                let stream = TcpSocket::new_v6().expect("this machine has IPv6").connect(address).await;
                // The receiver is gone where that took longer than it waits.
                let _ = connected.send(());
                drop((stream, std::future::pending::<()>().await));
            }));
            // The kernel drops a SYN to a full queue: that connection does not come about.
            if timeout(Duration::from_millis(100), outcome).await.is_err() {
                return Self { _listener: listener, _connections: connections };
            }
        }
    }

    /// Waits for a call that connects to `localhost`, and checks that this address cost it some time, yet not a second.
    ///
    /// # Panics
    /// If it took less or more.
    pub async fn costs_less_than_a_second<T>(&self, call: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let outcome = call.await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(took > Duration::from_millis(200), "the IPv6 address was no black hole: {took:?}");
        outcome
    }
}
