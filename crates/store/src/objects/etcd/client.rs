//! A connection to one of several etcd servers, and the next one where it fails. Every call ends within a bound.

use std::{
    fs,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{
    Code, Request, Status, Streaming,
    client::Grpc,
    codegen::tokio_stream::{self, StreamExt},
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;

use super::{
    super::StoreError,
    rpc_wire::{
        AuthenticateRequest, AuthenticateResponse, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveResponse,
        LeaseRequest, RangeRequest, RangeResponse, TxnRequest, TxnResponse, WatchCreate, WatchRequest, WatchResponse,
    },
};
use fairway_config::EtcdSettings;

/// The servers of one etcd.
#[derive(Debug)]
pub(super) struct Client {
    settings: EtcdSettings,
    /// Which of the endpoints is asked.
    at: AtomicUsize,
    /// The connection to it, once there is one.
    line: RwLock<Option<Line>>,
}

#[derive(Clone, Debug)]
struct Line {
    at: usize,
    grpc: Grpc<Channel>,
    token: Option<MetadataValue<Ascii>>,
}

/// Why a call gave nothing.
#[derive(Debug)]
enum Failure {
    /// Another endpoint, or the same one later, may answer.
    Away(String),
    /// The connection's password is no longer known there.
    Stranger(String),
    /// No endpoint will answer otherwise.
    Refused(Status),
}

impl Client {
    pub(super) fn new(settings: EtcdSettings) -> Self {
        Self { settings, at: AtomicUsize::new(0), line: RwLock::new(None) }
    }

    /// The endpoint that is asked.
    pub(super) fn endpoint(&self) -> &str {
        &self.settings.endpoints[self.at.load(Ordering::Relaxed)]
    }

    /// Longest time that a call takes: a silent endpoint, and another one.
    pub(super) fn longest(&self) -> Duration {
        self.settings.timeout * 2
    }

    pub(super) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Told> {
        self.call("/etcdserverpb.KV/Range", request, 2 * self.settings.endpoints.len()).await
    }

    /// A transaction. One that is asked twice must do no more than once: its comparison is about what it changes itself.
    pub(super) async fn txn(&self, request: TxnRequest) -> Result<(TxnResponse, bool), Told> {
        match self.call("/etcdserverpb.KV/Txn", request.clone(), 1).await {
            // It may be done, or not.
            Err(Told::Away(_)) => {
                Ok((self.call("/etcdserverpb.KV/Txn", request, 2 * self.settings.endpoints.len()).await?, true))
            }
            said => said.map(|said| (said, false)),
        }
    }

    /// A lease of so many seconds. One whose answer was lost runs out by itself.
    pub(super) async fn grant(&self, ttl: i64) -> Result<i64, Told> {
        let said: LeaseGrantResponse =
            self.call("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl }, 1).await?;
        Ok(said.id)
    }

    /// Lets go of a lease, and so of what was put under it.
    pub(super) async fn revoke(&self, id: i64) -> Result<(), Told> {
        // What it says is of no interest.
        let _: TxnResponse = self.call("/etcdserverpb.Lease/LeaseRevoke", LeaseRequest { id }, 1).await?;
        Ok(())
    }

    /// Keeps a lease for its time from now on; whether there is such a lease still.
    pub(super) async fn keep_alive(&self, id: i64) -> Result<bool, Told> {
        let at = self.at.load(Ordering::Relaxed);
        let kept = timeout(self.settings.timeout, async {
            let Line { mut grpc, token, .. } = self.line(at).await?;
            let request = self.request(tokio_stream::once(LeaseRequest { id }), token.as_ref());
            grpc.ready().await.map_err(away)?;
            let codec = ProstCodec::<LeaseRequest, LeaseKeepAliveResponse>::default();
            let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
            let mut stream = grpc.streaming(request, path, codec).await.map_err(failure)?.into_inner();
            let said = stream.message().await.map_err(failure)?;
            said.map(|said| said.ttl > 0).ok_or_else(|| Failure::Away("etcd says nothing of a lease".to_owned()))
        });
        kept.await.unwrap_or_else(|_| Err(Failure::Away(SILENT.to_owned()))).map_err(|failure| self.told(at, failure))
    }

    /// Has etcd forget what was before a revision.
    #[cfg(test)]
    pub(super) async fn compact(&self, revision: i64) {
        use super::rpc_wire::CompactionRequest;
        let request = CompactionRequest { revision, physical: true };
        let _: TxnResponse = self.call("/etcdserverpb.KV/Compact", request, 1).await.expect("it is compacted");
    }

    /// Tells of each change of a key from now on. The stream has begun when this returns.
    pub(super) async fn watch(&self, key: Vec<u8>) -> Result<Streaming<WatchResponse>, Told> {
        let at = self.at.load(Ordering::Relaxed);
        let begun = timeout(self.longest(), async {
            let Line { mut grpc, token, .. } = self.line(at).await?;
            let requests = tokio_stream::once(WatchRequest { create: Some(WatchCreate { key }) });
            let request = self.request(requests.chain(tokio_stream::pending()), token.as_ref());
            grpc.ready().await.map_err(away)?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
            let mut stream = grpc.streaming(request, path, codec).await.map_err(failure)?.into_inner();
            match stream.message().await.map_err(failure)? {
                Some(first) if first.created && !first.canceled => Ok(stream),
                Some(first) => Err(Failure::Away(format!("etcd does not watch: {}", first.cancel_reason))),
                None => Err(Failure::Away("etcd ended a watch".to_owned())),
            }
        });
        match begun.await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(failure)) => Err(self.told(at, failure)),
            Err(_) => Err(self.told(at, Failure::Away(SILENT.to_owned()))),
        }
    }

    /// Asks, and asks another endpoint where one is away.
    async fn call<Q, R>(&self, path: &'static str, request: Q, attempts: usize) -> Result<R, Told>
    where
        Q: Message + Clone + Sync + 'static,
        R: Message + Default + Sync + 'static,
    {
        let end = Instant::now() + self.longest();
        let mut last = None;
        for _ in 0..attempts.max(1) {
            let attempt = end.min(Instant::now() + self.settings.timeout);
            let at = self.at.load(Ordering::Relaxed);
            let said = timeout_at(attempt, self.once(at, path, request.clone())).await;
            match said.unwrap_or_else(|_| Err(Failure::Away(SILENT.to_owned()))) {
                Ok(said) => return Ok(said),
                Err(failure @ Failure::Refused(_)) => return Err(self.told(at, failure)),
                Err(failure) => last = Some(self.told(at, failure)),
            }
            if Instant::now() >= end {
                break;
            }
        }
        Err(last.unwrap_or_else(|| Told::Away(SILENT.to_owned())))
    }

    async fn once<Q, R>(&self, at: usize, path: &'static str, request: Q) -> Result<R, Failure>
    where
        Q: Message + Sync + 'static,
        R: Message + Default + Sync + 'static,
    {
        let Line { mut grpc, token, .. } = self.line(at).await?;
        let request = self.request(request, token.as_ref());
        unary(&mut grpc, path, request).await
    }

    fn request<T>(&self, message: T, token: Option<&MetadataValue<Ascii>>) -> Request<T> {
        let mut request = Request::new(message);
        // A server that sees no leader says so at once instead of waiting for one.
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    /// The connection to an endpoint; a new one after a failure, so that renewed certificates are read.
    async fn line(&self, at: usize) -> Result<Line, Failure> {
        if let Some(line) = &*self.line.read().unwrap_or_else(PoisonError::into_inner)
            && line.at == at
        {
            return Ok(line.clone());
        }
        let channel = self.channel(at).map_err(Failure::Away)?;
        let mut grpc = Grpc::new(channel).max_decoding_message_size(MESSAGE_MAX).max_encoding_message_size(MESSAGE_MAX);
        let token = match &self.settings.user {
            Some((user, file)) => Some(authenticate(&mut grpc, user, file).await?),
            None => None,
        };
        let line = Line { at, grpc, token };
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = Some(line.clone());
        Ok(line)
    }

    fn channel(&self, at: usize) -> Result<Channel, String> {
        let endpoint = &self.settings.endpoints[at];
        let uri = |e: tonic::transport::Error| format!("{endpoint}: {}", reasons(&e));
        let mut channel = Endpoint::from_shared(endpoint.clone())
            .map_err(uri)?
            .connect_timeout(self.settings.timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(self.settings.timeout.max(Duration::from_secs(1)))
            .keep_alive_while_idle(true);
        if endpoint.starts_with("https://") {
            channel = channel.tls_config(self.tls()?).map_err(uri)?;
        }
        Ok(channel.connect_lazy())
    }

    fn tls(&self) -> Result<ClientTlsConfig, String> {
        let read = |path: &std::path::Path| fs::read(path).map_err(|e| format!("{}: {e}", path.display()));
        let mut tls = ClientTlsConfig::new();
        tls = match &self.settings.ca {
            Some(ca) => tls.ca_certificate(Certificate::from_pem(read(ca)?)),
            None => tls.with_native_roots(),
        };
        if let Some((certificate, key)) = &self.settings.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(tls)
    }

    /// What became of a call to an endpoint; the next one goes elsewhere, unless others that failed there have seen to it.
    fn told(&self, at: usize, failure: Failure) -> Told {
        let endpoint = &self.settings.endpoints[at];
        let is_away = matches!(failure, Failure::Away(_));
        let told = match failure {
            Failure::Away(why) | Failure::Stranger(why) => Told::Away(format!("etcd at {endpoint}: {why}")),
            Failure::Refused(status) => return refused(endpoint, &status),
        };
        let mut line = self.line.write().unwrap_or_else(PoisonError::into_inner);
        if line.as_ref().is_some_and(|line| line.at == at) {
            *line = None;
        }
        if is_away {
            let next = (at + 1) % self.settings.endpoints.len();
            let _ = self.at.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        told
    }
}

/// Why a call gave nothing, with the endpoint that was asked.
#[derive(Clone, Debug)]
pub(super) enum Told {
    /// None of those that were asked answers now. What was asked for may be done, or not.
    Away(String),
    /// The revision that was asked for is compacted.
    Compacted,
    /// The answer would be too long.
    Long,
    /// It answers, and does not do it.
    Refused(String),
}

impl From<Told> for StoreError {
    fn from(told: Told) -> Self {
        match told {
            Told::Away(why) | Told::Refused(why) => Self::Unavailable(why),
            Told::Compacted => Self::Unavailable("etcd forgot a revision while it was read".to_owned()),
            Told::Long => Self::Unavailable("etcd holds a value that is too long to be read".to_owned()),
        }
    }
}

async fn authenticate(
    grpc: &mut Grpc<Channel>,
    user: &str,
    file: &std::path::Path,
) -> Result<MetadataValue<Ascii>, Failure> {
    let password = fs::read_to_string(file).map_err(|e| Failure::Away(format!("{}: {e}", file.display())))?;
    let password = password.trim_end_matches(['\r', '\n']).to_owned();
    let request = Request::new(AuthenticateRequest { name: user.to_owned(), password });
    let said: AuthenticateResponse = unary(grpc, "/etcdserverpb.Auth/Authenticate", request).await?;
    said.token.parse().map_err(|_| Failure::Away("etcd's token is no text".to_owned()))
}

async fn unary<Q, R>(grpc: &mut Grpc<Channel>, path: &'static str, request: Request<Q>) -> Result<R, Failure>
where
    Q: Message + Sync + 'static,
    R: Message + Default + Sync + 'static,
{
    grpc.ready().await.map_err(away)?;
    let said = grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::<Q, R>::default()).await;
    said.map(tonic::Response::into_inner).map_err(failure)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err wants it")]
fn away(error: tonic::transport::Error) -> Failure {
    Failure::Away(reasons(&error))
}

fn failure(status: Status) -> Failure {
    match status.code() {
        Code::Unauthenticated => Failure::Stranger(status.message().to_owned()),
        Code::InvalidArgument if status.message().contains("auth token") => {
            Failure::Stranger(status.message().to_owned())
        }
        Code::Unavailable
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Unknown
        | Code::Internal
        | Code::Aborted => Failure::Away(reasons(&status)),
        _ => Failure::Refused(status),
    }
}

fn refused(endpoint: &str, status: &Status) -> Told {
    let said = status.message();
    match status.code() {
        Code::OutOfRange if said.contains("compacted") => Told::Compacted,
        Code::OutOfRange | Code::ResourceExhausted if said.contains("message length too large") => Told::Long,
        Code::ResourceExhausted if said.contains("space") => Told::Refused(format!(
            "etcd at {endpoint} is full ({said}): compact and defragment it, or raise --quota-backend-bytes, then disarm its alarm"
        )),
        Code::PermissionDenied => Told::Refused(format!(
            "etcd at {endpoint} refuses ({said}): give the user of store.etcd reading and writing below its prefix"
        )),
        _ => Told::Refused(format!("etcd at {endpoint} refuses: {said}")),
    }
}

/// An error and what it came from, which says what is wrong.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

const SILENT: &str = "no answer in time (store.etcd.timeout)";
/// etcd takes a shorter interval than 5 s for an attack.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Most octets of one message: a page of what is read, which ends with the record that has it hold 4 MiB.
const MESSAGE_MAX: usize = 256 << 20;
