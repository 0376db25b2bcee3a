//! The board on etcd: a key under a lease. Whoever finds it free puts it there; while its server lives and reaches etcd the lease is
//! renewed, and what that server says is put anew whenever it is another. A server that ends gives the lease up; of one that is
//! gone the key goes with the lease, and the next one takes its place.
//!
//! The value: the server's stamp, drawn at its start, in 16 hexadecimal digits; a line break; what it says.

use std::{sync::Arc, time::Duration};

use fairway_etcd::{Client, Error, LeaseId, RangeRequest, Txn};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::{Desk, Posted, objects::StoreError};

/// One server at the board.
pub(super) struct Poster {
    client: Arc<Client>,
    key: Vec<u8>,
    desk: Desk,
    stamp: u64,
    lease: Option<Lease>,
    /// When etcd was last heard to say what is on the board.
    heard: Instant,
}

#[derive(Clone, Copy)]
struct Lease {
    id: LeaseId,
    renewed: Instant,
}

/// What was found on the board.
struct Found {
    mod_revision: i64,
    stamp: u64,
    says: Arc<[u8]>,
}

impl Poster {
    pub(super) fn new(client: Arc<Client>, key: Vec<u8>, desk: Desk, stamp: u64) -> Self {
        Self { client, key, desk, stamp, lease: None, heard: Instant::now() }
    }

    /// Looks at the board at every change of it, and now and then, until nobody offers any more.
    pub(super) async fn work(mut self) {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = None;
        loop {
            if changes.is_none() {
                changes = self.client.watch(&self.key).await.ok();
            }
            self.look().await;
            let change = async {
                match &mut changes {
                    Some(stream) => stream.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = beats.tick() => {}
                offered = self.desk.offers.changed() => if offered.is_err() { break },
                goes_on = change => {
                    if !goes_on {
                        changes = None;
                        beats.tick().await;
                    }
                }
            }
        }
        self.give_up().await;
    }

    /// Takes what is there, and puts there what is to be. Where etcd does not answer, what was last there holds as long as its lease.
    async fn look(&mut self) {
        let posted = match self.turn().await {
            Ok(posted) => {
                self.heard = Instant::now();
                posted
            }
            Err(_) if self.heard.elapsed() < TERM => return,
            Err(error) => {
                self.lease = None;
                Posted::Away(StoreError::from(error).to_string().into())
            }
        };
        self.desk.posted.send_if_modified(|before| {
            let is_new = *before != posted;
            *before = posted;
            is_new
        });
    }

    async fn turn(&mut self) -> Result<Posted, Error> {
        self.renew().await?;
        let found = self.read().await?;
        let offer = self.desk.offers.borrow_and_update().clone();
        let (at, said) = match (found, &offer) {
            (Some(found), _) if found.stamp != self.stamp => {
                self.give_up().await;
                return Ok(Posted::Of(found.says));
            }
            (_, None) => {
                self.give_up().await;
                return Ok(Posted::Nothing);
            }
            (Some(found), Some(_)) => (found.mod_revision, Some(found.says)),
            (None, Some(_)) => (0, None),
        };
        let is_there = said == offer || self.put(at, offer.as_deref().unwrap_or_default()).await?;
        // Somebody else was faster: the next look tells who.
        Ok(if is_there { Posted::Own } else { Posted::Nothing })
    }

    async fn renew(&mut self) -> Result<(), Error> {
        if let Some(lease) = self.lease.filter(|lease| lease.renewed.elapsed() >= TERM / 3) {
            let renewed = Instant::now();
            self.lease = self.client.keep_alive(lease.id).await?.then_some(Lease { renewed, ..lease });
        }
        Ok(())
    }

    async fn read(&self) -> Result<Option<Found>, Error> {
        let said = self.client.range(RangeRequest { key: self.key.clone(), ..RangeRequest::default() }).await?;
        Ok(said.pairs.first().map(|found| {
            let (stamp, says) = found.value.split_at(found.value.len().min(STAMP));
            let stamp = std::str::from_utf8(stamp).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
            Found {
                mod_revision: found.mod_revision,
                // Nobody has the stamp 0.
                stamp: stamp.unwrap_or_default(),
                says: says.strip_prefix(b"\n").unwrap_or_default().into(),
            }
        }))
    }

    /// Puts what this server says where what was found still is; whether it was.
    async fn put(&mut self, found: i64, says: &[u8]) -> Result<bool, Error> {
        let lease = match self.lease {
            Some(lease) => lease,
            None => {
                let renewed = Instant::now();
                let id = self.client.grant(TERM).await?;
                *self.lease.insert(Lease { id, renewed })
            }
        };
        let value = [format!("{:016x}\n", self.stamp).as_bytes(), says].concat();
        let mut txn = Txn::default();
        txn.if_mod_revision(self.key.clone(), found);
        txn.put_leased(self.key.clone(), value, lease.id);
        Ok(self.client.txn(txn).await?.succeeded)
    }

    /// Lets go of the lease; where that fails it runs out.
    async fn give_up(&mut self) {
        if let Some(lease) = self.lease.take() {
            let _ = self.client.revoke(lease.id).await;
        }
    }
}

/// How often the board is looked at where nothing was heard of it.
const BEAT: Duration = Duration::from_secs(1);
/// How long a server that is gone is waited for, and how long one that is cut off follows what it heard last.
const TERM: Duration = Duration::from_secs(6);
/// Octets of a stamp.
const STAMP: usize = 16;
