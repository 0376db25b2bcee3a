//! Leader election on etcd: the leader is the server whose lease holds the key `PREFIXleader`.
//!
//! A server with a decision to publish takes the key if it is free. The lease is renewed while the server lives and reaches etcd; a changed
//! decision is written again. A server that stops revokes its lease. The lease of a killed server expires, and another server takes the key.
//!
//! Value of the key: the random id of the server in 16 hexadecimal digits, a line break, the decision.

use std::{sync::Arc, time::Duration};

use fairway_etcd::{Client, Error, LeaseId, RangeRequest, Txn};
use tokio::time::Instant;

use super::changes::Changes;
use crate::{ElectionBackend, Leadership, objects::StoreError};

/// This server in the election.
pub(super) struct Candidate {
    client: Arc<Client>,
    key: Vec<u8>,
    backend: ElectionBackend,
    /// Random id of this server.
    id: u64,
    lease: Option<Lease>,
    /// Time of the last answer of etcd.
    answered: Instant,
}

#[derive(Clone, Copy)]
struct Lease {
    id: LeaseId,
    renewed: Instant,
}

/// The leader, as its key was read.
struct Leader {
    mod_revision: i64,
    id: u64,
    decision: Arc<[u8]>,
}

impl Candidate {
    pub(super) fn new(client: Arc<Client>, key: Vec<u8>, backend: ElectionBackend, id: u64) -> Self {
        Self { client, key, backend, id, lease: None, answered: Instant::now() }
    }

    /// Takes part until the other side of the election is dropped.
    pub(super) async fn run(mut self) {
        let mut changes = Changes::new(Arc::clone(&self.client), self.key.clone());
        loop {
            changes.start().await;
            self.update().await;
            tokio::select! {
                () = changes.wait() => {}
                decided = self.backend.decision.changed() => if decided.is_err() { break },
            }
        }
        self.revoke().await;
    }

    /// Publishes the result of one round. While etcd does not answer, the last result holds as long as its lease.
    async fn update(&mut self) {
        let leadership = match self.round().await {
            Ok(leadership) => {
                self.answered = Instant::now();
                leadership
            }
            Err(_) if self.answered.elapsed() < LEASE_TTL => return,
            Err(error) => {
                self.lease = None;
                Leadership::Unknown(StoreError::from(error).to_string().into())
            }
        };
        self.backend.leadership.send_if_modified(|before| {
            let is_new = *before != leadership;
            *before = leadership;
            is_new
        });
    }

    async fn round(&mut self) -> Result<Leadership, Error> {
        self.renew().await?;
        let leader = self.leader().await?;
        let decision = self.backend.decision.borrow_and_update().clone();
        let (mod_revision, published) = match (leader, &decision) {
            (Some(leader), _) if leader.id != self.id => {
                self.revoke().await;
                return Ok(Leadership::Other(leader.decision));
            }
            (_, None) => {
                self.revoke().await;
                return Ok(Leadership::Vacant);
            }
            (Some(leader), Some(_)) => (leader.mod_revision, Some(leader.decision)),
            (None, Some(_)) => (0, None),
        };
        let is_leader =
            published == decision || self.publish(mod_revision, decision.as_deref().unwrap_or_default()).await?;
        // Another server was faster: the next round finds it.
        Ok(if is_leader { Leadership::ThisServer } else { Leadership::Vacant })
    }

    async fn renew(&mut self) -> Result<(), Error> {
        if let Some(lease) = self.lease.filter(|lease| lease.renewed.elapsed() >= LEASE_TTL / 3) {
            let renewed = Instant::now();
            self.lease = self.client.keep_alive(lease.id).await?.then_some(Lease { renewed, ..lease });
        }
        Ok(())
    }

    async fn leader(&self) -> Result<Option<Leader>, Error> {
        let page = self.client.range(RangeRequest { key: self.key.clone(), ..RangeRequest::default() }).await?;
        Ok(page.pairs.first().map(|pair| {
            let (id, decision) = pair.value.split_at(pair.value.len().min(ID_DIGITS));
            let id = std::str::from_utf8(id).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            Leader {
                mod_revision: pair.mod_revision,
                // No server has the id 0, so a malformed value counts as that of another server.
                id: id.unwrap_or_default(),
                decision: decision.strip_prefix(b"\n").unwrap_or_default().into(),
            }
        }))
    }

    /// Writes the decision, if the key has not changed since it was read. Returns true if it was written.
    async fn publish(&mut self, mod_revision: i64, decision: &[u8]) -> Result<bool, Error> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                let renewed = Instant::now();
                let id = self.client.grant(LEASE_TTL).await?;
                *self.lease.insert(Lease { id, renewed })
            }
        };
        let value = [format!("{:016x}\n", self.id).as_bytes(), decision].concat();
        let mut txn = Txn::default();
        txn.if_mod_revision(self.key.clone(), mod_revision);
        txn.put_leased(self.key.clone(), value, lease.id);
        Ok(self.client.txn(txn).await?.succeeded)
    }

    /// Revokes the lease. If that fails, the lease expires.
    async fn revoke(&mut self) {
        if let Some(lease) = self.lease.take() {
            let _ = self.client.revoke(lease.id).await;
        }
    }
}

/// Time until a killed server is replaced as leader, and during which a server without etcd follows the last decision it read: six
/// polls, so that a lost one costs nothing.
const LEASE_TTL: Duration = Duration::from_secs(6);
/// Length of the id in the value.
const ID_DIGITS: usize = 16;
