//! Calls, and fail-over between the endpoints of one etcd.

use std::{
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use fairway_http::Url;
use tokio::time::{Instant, timeout_at};
use tonic::{
    Streaming,
    codegen::tokio_stream::{self, StreamExt},
};

use crate::{
    Error, ErrorKind, Settings, Txn, TxnOutcome,
    connection::Connection,
    etcdserverpb::{
        KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest, WatchCreateRequest,
        WatchRequest, WatchResponse, watch_request::RequestUnion,
    },
};

/// A client of one etcd. It calls one endpoint until that fails, then the next one (round robin).
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    /// Index of the endpoint that is asked.
    current: AtomicUsize,
    /// The connection to an endpoint, with its index. `None` before the first call and after a failure.
    connection: RwLock<Option<(usize, Connection)>>,
}

/// Keys of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Revision of the store that was read.
    pub revision: i64,
    /// In the order of their keys.
    pub pairs: Vec<KeyValue>,
    /// True if there are more keys, which the limit excluded.
    pub more: bool,
}

/// A lease, by the number that etcd gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId(pub(crate) i64);

/// Changes of a key, from the moment the watch was started.
#[derive(Debug)]
pub struct Watch(Streaming<WatchResponse>);

impl Watch {
    /// Waits for the next change. Returns false if the watch has ended: start another one and read the key again.
    ///
    /// Cancel-safe: no change is lost if it is dropped while it waits.
    pub async fn changed(&mut self) -> bool {
        matches!(self.0.message().await, Ok(Some(response)) if !response.canceled)
    }
}

impl Client {
    /// Creates a client; connects to nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, current: AtomicUsize::new(0), connection: RwLock::new(None) }
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The endpoint that is asked now.
    pub fn endpoint(&self) -> &Url {
        &self.settings.endpoints[self.current.load(Ordering::Relaxed)]
    }

    /// Reads a range of keys.
    pub async fn range(&self, request: RangeRequest) -> Result<Page, Error> {
        let ask = |connection: Connection| {
            let request = request.clone();
            async move { Ok(connection.kv().range(request).await?.into_inner()) }
        };
        let response = self.call(self.all_attempts(), ask).await?;
        let revision = response.header.map_or(0, |header| header.revision);
        Ok(Page { revision, pairs: response.kvs, more: response.more })
    }

    /// Runs a transaction.
    ///
    /// It is sent again if the first attempt gets no answer, though that attempt may have been applied. So its comparisons must fail
    /// once its own operations are applied; [`TxnOutcome::is_retry`] says when that may be the cause of a failed comparison.
    pub async fn txn(&self, txn: Txn) -> Result<TxnOutcome, Error> {
        let ask = |connection: Connection| {
            let request = txn.0.clone();
            async move { Ok(connection.kv().txn(request).await?.into_inner()) }
        };
        match self.call(1, ask).await {
            Err(error) if error.kind.is_transient() => {
                Ok(TxnOutcome::new(self.call(self.all_attempts(), ask).await?, true))
            }
            result => Ok(TxnOutcome::new(result?, false)),
        }
    }

    /// Creates a lease. If the answer is lost, the lease expires on its own.
    pub async fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        let request = LeaseGrantRequest { ttl: ttl.as_secs().cast_signed() };
        let ask =
            |connection: Connection| async move { Ok(connection.lease().lease_grant(request).await?.into_inner()) };
        Ok(LeaseId(self.call(1, ask).await?.id))
    }

    /// Deletes a lease and the keys that were written with it.
    pub async fn revoke(&self, LeaseId(id): LeaseId) -> Result<(), Error> {
        let request = LeaseRevokeRequest { id };
        let ask = |connection: Connection| async move { Ok(connection.lease().lease_revoke(request).await?) };
        self.call(1, ask).await.map(drop)
    }

    /// Renews a lease for its full time. Returns false if there is no such lease any more.
    pub async fn keep_alive(&self, LeaseId(id): LeaseId) -> Result<bool, Error> {
        let ask = |connection: Connection| async move {
            let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
            let mut responses = connection.lease().lease_keep_alive(requests).await?.into_inner();
            let response = responses.message().await?;
            response.map(|response| response.ttl > 0).ok_or_else(|| ErrorKind::ended("lease"))
        };
        self.call(1, ask).await
    }

    /// Watches a key. Changes after this returns are seen.
    pub async fn watch(&self, key: &[u8]) -> Result<Watch, Error> {
        let ask = |connection: Connection| {
            let create = RequestUnion::CreateRequest(WatchCreateRequest { key: key.to_vec() });
            // The watch lasts as long as its request stream is open.
            let requests =
                tokio_stream::once(WatchRequest { request_union: Some(create) }).chain(tokio_stream::pending());
            async move {
                let mut responses = connection.watch().watch(requests).await?.into_inner();
                match responses.message().await? {
                    Some(first) if first.created && !first.canceled => Ok(Watch(responses)),
                    Some(first) => {
                        Err(ErrorKind::Unavailable(format!("the watch was refused: {}", first.cancel_reason)))
                    }
                    None => Err(ErrorKind::ended("watch")),
                }
            }
        };
        self.call(1, ask).await
    }

    /// Every endpoint twice: the first time the connection may only have been too old.
    fn all_attempts(&self) -> usize {
        2 * self.settings.endpoints.len()
    }

    /// Makes a call, and repeats it at the next endpoint if one is unavailable.
    async fn call<T, F>(&self, attempts: usize, ask: impl Fn(Connection) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, ErrorKind>>,
    {
        let end = Instant::now() + self.settings.call_timeout;
        for _ in 1..attempts {
            match self.attempt(end, &ask).await {
                Err(error) if error.kind.is_transient() && Instant::now() < end => {}
                result => return result,
            }
        }
        self.attempt(end, &ask).await
    }

    async fn attempt<T, F>(&self, end: Instant, ask: impl Fn(Connection) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, ErrorKind>>,
    {
        let at = self.current.load(Ordering::Relaxed);
        let limit = end.min(Instant::now() + self.settings.endpoint_timeout);
        let late = |_| Err(ErrorKind::Unavailable(format!("no answer within {:?}", self.settings.endpoint_timeout)));
        let result = timeout_at(limit, async { ask(self.connection(at).await?).await }).await.unwrap_or_else(late);
        result.map_err(|kind| self.failed(at, kind))
    }

    /// The connection to an endpoint; a new one after a failure, so that renewed certificates and passwords are read.
    async fn connection(&self, at: usize) -> Result<Connection, ErrorKind> {
        if let Some((of, connection)) = &*self.connection.read().unwrap_or_else(PoisonError::into_inner)
            && *of == at
        {
            return Ok(connection.clone());
        }
        let connection = Connection::open(&self.settings, &self.settings.endpoints[at]).await?;
        *self.connection.write().unwrap_or_else(PoisonError::into_inner) = Some((at, connection.clone()));
        Ok(connection)
    }

    /// Closes the connection that failed, and moves on to the next endpoint unless another call has done so already.
    fn failed(&self, at: usize, kind: ErrorKind) -> Error {
        if kind.is_transient() {
            let mut connection = self.connection.write().unwrap_or_else(PoisonError::into_inner);
            connection.take_if(|(of, _)| *of == at);
        }
        if matches!(kind, ErrorKind::Unavailable(_)) {
            let next = (at + 1) % self.settings.endpoints.len();
            let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Error { endpoint: self.settings.endpoints[at].origin().to_owned(), kind }
    }
}
