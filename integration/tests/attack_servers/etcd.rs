//! An etcd in memory with as much of its API as the store uses, until an attack is switched on.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use fairway_etcd::{KeyValue, RangeRequest};
use http_body_util::{BodyExt, Full};
use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    header::HeaderValue,
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::{net::TcpListener, runtime::Runtime};

/// Wrong answers to reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    /// A page of 256 MiB.
    Flood,
    /// A page of the largest message with as many keys as possible.
    EmptyKeys,
    /// The head of an earlier revision, of another log.
    Backwards,
    /// One more entry, with this row key and the row of another object.
    ForeignRow(&'static str),
    /// One more entry, with a row of random bytes.
    DamagedRow,
    /// One more entry, whose key is not of the store.
    ForeignKey,
    /// The first page again and again, each with the remark that there is more.
    EndlessPages,
    /// One more entry in a million chunks, each longer than the whole.
    EndlessChunks,
}

/// A running server.
pub(crate) struct FakeEtcd {
    pub(crate) at: SocketAddr,
    state: Arc<Mutex<State>>,
    /// Ends the server when it is dropped.
    _runtime: Runtime,
}

#[derive(Default)]
struct State {
    revision: i64,
    pairs: BTreeMap<Vec<u8>, KeyValue>,
    attack: Option<Attack>,
    /// Number of reads since the attack began.
    reads: usize,
    /// A message that takes long to make.
    flood: Bytes,
}

impl FakeEtcd {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().expect("threads can be started");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("loopback has a free port");
        let at = listener.local_addr().expect("it is bound");
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&state), request));
                let connection =
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service);
                tokio::spawn(connection);
            }
        });
        Self { at, state, _runtime: runtime }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    pub(crate) fn set(&self, attack: Option<Attack>) {
        let mut state = self.state();
        (state.attack, state.reads) = (attack, 0);
        if attack == Some(Attack::Flood) && state.flood.is_empty() {
            let pair = KeyValue { key: b"k".to_vec(), mod_revision: 1, value: vec![b'x'; (256 << 20) - 64] };
            state.flood = framed(&Page { header: state.header(), kvs: vec![pair], more: false });
        }
    }

    /// Returns the number of reads since the attack began.
    pub(crate) fn reads(&self) -> usize {
        self.state().reads
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Page {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    more: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Operation {
    #[prost(message, optional, tag = "2")]
    put: Option<Put>,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Transaction {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Operation>,
}

#[derive(Clone, PartialEq, Message)]
struct Outcome {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(bool, tag = "2")]
    succeeded: bool,
}

#[derive(Clone, PartialEq, Message)]
struct WatchCreated {
    #[prost(bool, tag = "3")]
    created: bool,
}

/// Returns a message with its gRPC head: not compressed, the length.
fn framed(message: &impl Message) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.encoded_len()).expect("less than 4 GiB").to_be_bytes());
    message.encode(&mut bytes).expect("a vector grows");
    bytes.into()
}

async fn answer(
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>>, hyper::Error> {
    let call = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let body = match &*call {
        // Its request does not end. All that follows the first message is no message.
        "Watch" => [&framed(&WatchCreated { created: true })[..], &[0xff; 64]].concat().into(),
        _ => {
            let body = request.into_body().collect().await?.to_bytes();
            let message = body.get(5..).unwrap_or_default();
            let mut state = state.lock().expect("nobody panics with it");
            match &*call {
                "Range" => state.range(&RangeRequest::decode(message).expect("the client encodes well")),
                "Txn" => state.commit(Transaction::decode(message).expect("the client encodes well")),
                // A lease without an id: the server has nothing to lead.
                _ => framed(&Outcome::default()),
            }
        }
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(body).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

impl State {
    fn header(&self) -> Option<Header> {
        Some(Header { revision: self.revision })
    }

    fn range(&mut self, request: &RangeRequest) -> Bytes {
        self.reads += 1;
        if let Some(page) = self.attack.and_then(|attack| self.hostile(attack, request)) {
            return page;
        }
        self.page(&self.pairs, request)
    }

    fn page(&self, pairs: &BTreeMap<Vec<u8>, KeyValue>, request: &RangeRequest) -> Bytes {
        let end =
            if request.range_end.is_empty() { [&request.key[..], &[0]].concat() } else { request.range_end.clone() };
        let mut kvs: Vec<_> = pairs.range(request.key.clone()..end).map(|(_, pair)| pair.clone()).collect();
        let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let more = kvs.len() > limit;
        kvs.truncate(limit);
        framed(&Page { header: self.header(), kvs, more })
    }

    fn commit(&mut self, transaction: Transaction) -> Bytes {
        let found = |key: &Vec<u8>| self.pairs.get(key).map_or(0, |pair| pair.mod_revision);
        let succeeded = transaction.compare.iter().all(|of| of.mod_revision.is_none_or(|at| at == found(&of.key)));
        if succeeded {
            self.revision += 1;
            for Put { key, value } in transaction.success.into_iter().filter_map(|operation| operation.put) {
                self.pairs.insert(key.clone(), KeyValue { key, mod_revision: self.revision, value });
            }
        }
        framed(&Outcome { header: self.header(), succeeded })
    }

    /// Returns the answer of an attack; `None` if this read is answered well.
    fn hostile(&self, attack: Attack, request: &RangeRequest) -> Option<Bytes> {
        let (head_key, head) = self.pairs.iter().find(|(key, _)| key.ends_with(b"/head")).expect("it was written");
        let prefix = String::from_utf8_lossy(head_key).trim_end_matches("head").to_owned();
        let words: Vec<_> = str::from_utf8(&head.value).expect("text").split(' ').collect();
        let (last, nonce) = (words[2].parse::<u64>().expect("a number"), words[4]);
        let next = last + 1;
        let record_of = |revision: u64| format!("{prefix}record/{revision:016x}");
        let entry = |rows: &[(&str, &[u8])]| entry(nonce, next, rows);
        let (key, value) = match attack {
            Attack::Flood => return Some(self.flood.clone()),
            Attack::EmptyKeys => return Some(empty_keys()),
            Attack::Backwards => (String::new(), vec![]),
            Attack::ForeignRow(key) => {
                let record =
                    self.pairs.values().find(|pair| pair.key.starts_with(format!("{prefix}record/").as_bytes()));
                (record_of(next), entry(&[(key, first_row(&record.expect("one").value))]))
            }
            Attack::DamagedRow => (record_of(next), entry(&[("cluster/x", &[0xfe; 90])])),
            Attack::ForeignKey => (format!("{prefix}record/{next:015x}x"), entry(&[])),
            Attack::EndlessPages => (record_of(next), entry(&[])),
            Attack::EndlessChunks if request.range_end.is_empty() && request.key.len() > record_of(0).len() => {
                let kvs = vec![KeyValue { key: request.key.clone(), mod_revision: 1, value: vec![b'x'; 7 << 20] }];
                return Some(framed(&Page { header: self.header(), kvs, more: false }));
            }
            Attack::EndlessChunks => (record_of(next), format!("/{:016x} 1000000 {}", 7, 6 << 20).into_bytes()),
        };
        if attack == Attack::EndlessPages && !request.range_end.is_empty() {
            let kvs = vec![KeyValue { key: key.into_bytes(), mod_revision: 1, value }];
            return Some(framed(&Page { header: self.header(), kvs, more: true }));
        }
        let mut pairs = self.pairs.clone();
        let announced = if attack == Attack::Backwards { 1 } else { next + 1_000 };
        let announced = format!("fairway-objects 1 {announced} 0 {:016x}", 7).into_bytes();
        pairs.insert(head_key.clone(), KeyValue { value: announced, ..head.clone() });
        pairs.insert(key.clone().into_bytes(), KeyValue { key: key.into_bytes(), mod_revision: 1, value });
        Some(self.page(&pairs, request))
    }
}

/// Returns an entry of the log after the one with a nonce (`crates/store/src/objects/etcd/format.rs` draws it).
fn entry(previous: &str, revision: u64, rows: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = format!("=1 {previous} {:016x} {revision} {revision}\n", 7).into_bytes();
    for (key, row) in rows {
        let lengths = [key.len(), row.len()].map(|length| u32::try_from(length).expect("small").to_le_bytes());
        bytes.extend([lengths.as_flattened(), key.as_bytes(), row].concat());
    }
    bytes
}

/// Returns the first row of an entry.
fn first_row(value: &[u8]) -> &[u8] {
    let rows = &value[value.iter().position(|byte| *byte == b'\n').expect("a first line") + 1..];
    let length = |at: usize| u32::from_le_bytes(rows[at..at + 4].try_into().expect("four bytes")) as usize;
    &rows[8 + length(0)..][..length(4)]
}

/// Returns a page of 8 MiB, the most that the client takes. A key without bytes is two bytes on the wire.
fn empty_keys() -> Bytes {
    let length = (8 << 20) - 2;
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(length).expect("8 MiB").to_be_bytes());
    bytes.extend([0x12, 0].repeat(length / 2));
    bytes.into()
}
