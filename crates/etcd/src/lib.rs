//! Client of etcd's version 3 API over gRPC, for the object store and for publishing to CoreDNS.
//!
//! A [`Client`] asks one endpoint at a time and the next one when that fails; every call ends within a bound. The messages and the
//! clients of the services in `etcdserverpb` are generated from `proto/etcd.proto` and committed, so that a build needs no `protoc`
//! (`generate/src/main.rs` has the command).
//!
//! Not here: the parts of etcd's API that Fairway does not use, and the operation of etcd.
#![forbid(unsafe_code)]

mod client;
mod connection;
mod error;
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated; the docs are those of proto/etcd.proto"
)]
mod etcdserverpb;
mod settings;
mod txn;

pub use self::{
    client::{Client, LeaseId, Page, Watch},
    error::{Error, ErrorKind},
    etcdserverpb::{KeyValue, RangeRequest},
    settings::{Settings, Source},
    txn::{Txn, TxnOutcome},
};

/// The key after all keys with a prefix, where a range of them ends.
///
/// An empty prefix, or one of bytes 255 alone, has no key after it: etcd writes the end of everything as one byte 0.
pub fn prefix_end(prefix: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut end = prefix.into();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn prefix_end_is_the_next_prefix() {
        assert_eq!(prefix_end("/a/"), b"/a0");
        assert_eq!(prefix_end([b'a', 255]), b"b");
        assert_eq!((prefix_end(""), prefix_end([255])), (vec![0], vec![0]));
    }
}
