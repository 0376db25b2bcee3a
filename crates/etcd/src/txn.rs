//! Transactions: comparisons, and operations that are applied if all of them hold.

use crate::{
    client::LeaseId,
    etcdserverpb::{
        Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
        compare::{CompareResult, CompareTarget, TargetUnion},
        request_op::Request,
        response_op::Response,
    },
    prefix_end,
};

/// Operations that are applied together, if all comparisons hold.
#[derive(Clone, Debug, Default)]
pub struct Txn(pub(crate) TxnRequest);

/// Result of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnOutcome {
    /// True if all comparisons held, and the operations were applied.
    pub succeeded: bool,
    /// Revision of the store after it.
    pub revision: i64,
    /// Keys found by its reading operations, in their order.
    pub ranges: Vec<Vec<KeyValue>>,
    /// True if a first attempt got no answer. Then `succeeded: false` may only mean that the first attempt was applied.
    pub is_retry: bool,
}

impl Txn {
    /// Compares the revision of a key's last change; 0 if the key must not exist.
    pub fn if_mod_revision(&mut self, key: impl Into<Vec<u8>>, revision: i64) {
        self.compare(key.into(), Vec::new(), CompareResult::Equal, TargetUnion::ModRevision(revision));
    }

    /// Compares the value of a key.
    pub fn if_value(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.compare(key.into(), Vec::new(), CompareResult::Equal, TargetUnion::Value(value.into()));
    }

    /// Requires that no key with a prefix was created or changed after a revision. A deleted key does not count.
    pub fn if_unchanged_since(&mut self, prefix: &str, revision: i64) {
        let before = TargetUnion::ModRevision(revision.saturating_add(1));
        self.compare(prefix.into(), prefix_end(prefix), CompareResult::Less, before);
    }

    /// Writes a key.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.operation(Request::RequestPut(PutRequest { key: key.into(), value: value.into(), lease: 0 }));
    }

    /// Writes a key that is deleted with a lease.
    pub fn put_leased(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>, LeaseId(lease): LeaseId) {
        self.operation(Request::RequestPut(PutRequest { key: key.into(), value: value.into(), lease }));
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.delete_range(key, Vec::new());
    }

    /// Deletes all keys from `key` up to, not including, `end`.
    pub fn delete_range(&mut self, key: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) {
        let request = DeleteRangeRequest { key: key.into(), range_end: end.into() };
        self.operation(Request::RequestDeleteRange(request));
    }

    /// Reads all keys with a prefix.
    pub fn read_prefix(&mut self, prefix: &str) {
        let (key, range_end) = (prefix.into(), prefix_end(prefix));
        self.operation(Request::RequestRange(RangeRequest { key, range_end, ..RangeRequest::default() }));
    }

    /// Number of operations. etcd accepts 128 (`--max-txn-ops`).
    pub fn operations(&self) -> usize {
        self.0.success.len()
    }

    fn compare(&mut self, key: Vec<u8>, range_end: Vec<u8>, result: CompareResult, operand: TargetUnion) {
        let target = match operand {
            TargetUnion::ModRevision(_) => CompareTarget::Mod,
            TargetUnion::Value(_) => CompareTarget::Value,
        };
        let (result, target) = (result.into(), target.into());
        self.0.compare.push(Compare { result, target, key, range_end, target_union: Some(operand) });
    }

    fn operation(&mut self, request: Request) {
        self.0.success.push(RequestOp { request: Some(request) });
    }
}

impl TxnOutcome {
    pub(crate) fn new(response: TxnResponse, is_retry: bool) -> Self {
        let range = |response: Option<Response>| match response {
            Some(Response::ResponseRange(range)) => Some(range.kvs),
            _ => None,
        };
        Self {
            succeeded: response.succeeded,
            revision: response.header.map_or(0, |header| header.revision),
            ranges: response.responses.into_iter().filter_map(|one| range(one.response)).collect(),
            is_retry,
        }
    }
}
