//! Leader election on etcd: the leader is the server whose lease holds the key `PREFIXleader`.
//!
//! A server with a decision to publish takes the key if it is free. The lease is renewed while the server lives and reaches etcd; a changed
//! decision is written again. A server that stops revokes its lease. The lease of a killed server expires, and another server takes the key.
//!
//! Value of the key: the random id of the server in 16 hexadecimal digits, a line break, the decision.
//!
//! The other servers write their evidence to `PREFIXevidence/ID`, under their leases, and the leader reads it.

use std::{sync::Arc, time::Duration};

use fairway_etcd::{Client, Error, LeaseId, RangeRequest, Txn, prefix_end};
use tokio::time::Instant;

use super::{changes::Changes, format::Keys};
use crate::{ElectionBackend, Leadership, election::Offer, objects::StoreError};

/// This server in the election.
pub(super) struct Candidate {
    client: Arc<Client>,
    key: Vec<u8>,
    /// Prefix of the keys with evidence.
    evidence: String,
    backend: ElectionBackend,
    /// Random id of this server.
    id: u64,
    lease: Option<Lease>,
    /// The evidence that was written, and its lease.
    written: Option<(LeaseId, Arc<[u8]>)>,
    /// Evidence of other servers, as it was last read.
    others: Arc<[Arc<[u8]>]>,
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
    pub(super) fn new(client: Arc<Client>, keys: &Keys, backend: ElectionBackend, id: u64) -> Self {
        let (key, evidence) = (keys.leader(), keys.evidence());
        Self {
            client,
            key,
            evidence,
            backend,
            id,
            lease: None,
            written: None,
            others: Arc::default(),
            answered: Instant::now(),
        }
    }

    /// Takes part until the other side of the election is dropped.
    pub(super) async fn run(mut self) {
        let mut changes = Changes::new(Arc::clone(&self.client), self.key.clone());
        loop {
            changes.start().await;
            self.update().await;
            tokio::select! {
                () = changes.wait() => {}
                offered = self.backend.offer.changed() => if offered.is_err() { break },
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
        let Offer { decision, evidence } = self.backend.offer.borrow_and_update().clone();
        let (mod_revision, published) = match (leader, &decision) {
            (Some(leader), _) if leader.id != self.id => {
                // It follows the leader also if it cannot write: a full etcd takes nothing.
                let _ = self.write_evidence(evidence).await;
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
        if !is_leader {
            return Ok(Leadership::Vacant);
        }
        if let Ok(found) = self.evidence_of_others().await {
            self.others = found;
        }
        Ok(Leadership::ThisServer(Arc::clone(&self.others)))
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
        let lease = self.granted_lease().await?;
        let value = [format!("{:016x}\n", self.id).as_bytes(), decision].concat();
        let mut txn = Txn::default();
        txn.if_mod_revision(self.key.clone(), mod_revision);
        txn.put_leased(self.key.clone(), value, lease);
        Ok(self.client.txn(txn).await?.succeeded)
    }

    /// Writes the evidence of this server, unless it is there.
    async fn write_evidence(&mut self, evidence: Option<Arc<[u8]>>) -> Result<(), Error> {
        let Some(evidence) = evidence else { return Ok(()) };
        let lease = self.granted_lease().await?;
        let is_there = |(with, written): &(LeaseId, Arc<[u8]>)| *with == lease && *written == evidence;
        if !self.written.as_ref().is_some_and(is_there) {
            let mut txn = Txn::default();
            txn.put_leased(self.own_evidence(), evidence.to_vec(), lease);
            self.client.txn(txn).await?;
            self.written = Some((lease, evidence));
        }
        Ok(())
    }

    async fn evidence_of_others(&self) -> Result<Arc<[Arc<[u8]>]>, Error> {
        let (mut found, mut key, end) =
            (Vec::new(), self.evidence.clone().into_bytes(), prefix_end(self.evidence.clone()));
        loop {
            let request = RangeRequest { key, range_end: end.clone(), limit: EVIDENCE_PAGE, ..RangeRequest::default() };
            let page = self.client.range(request).await?;
            // The next key after the last one.
            key = page.pairs.last().map(|pair| [pair.key.as_slice(), b"\0"].concat()).unwrap_or_default();
            let own = self.own_evidence();
            found.extend(page.pairs.into_iter().filter(|pair| pair.key != own).map(|pair| pair.value.into()));
            if !page.more {
                return Ok(found.into());
            }
        }
    }

    fn own_evidence(&self) -> Vec<u8> {
        format!("{}{:016x}", self.evidence, self.id).into_bytes()
    }

    async fn granted_lease(&mut self) -> Result<LeaseId, Error> {
        if let Some(lease) = self.lease {
            return Ok(lease.id);
        }
        let renewed = Instant::now();
        let id = self.client.grant(LEASE_TTL).await?;
        self.lease = Some(Lease { id, renewed });
        Ok(id)
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
/// Values of evidence that are read at once: by default etcd takes values of up to 1.5 MiB, and the client answers of up to 8 MiB.
const EVIDENCE_PAGE: i64 = 4;
/// Length of the id in the value.
const ID_DIGITS: usize = 16;
