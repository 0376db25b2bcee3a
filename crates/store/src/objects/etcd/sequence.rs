//! The one order of everything that several servers write: a head that each group replaces, if it is still the one that was read.

use std::sync::Arc;

use fairway_etcd::{Client, Error, RangeRequest, Txn, TxnOutcome};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::runtime::Handle;

use super::{
    super::{
        StoreError,
        local::upstream::{Appended, Carried, Part, Tip, Upstream},
    },
    record::{Assembler, Head, Keys, encode, head, of_pieces, read_head},
    standing::Shared,
};

/// The etcd, as the thread that writes the copy sees it.
pub(super) struct Sequence {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    pub(super) shared: Arc<Shared>,
    /// Where the client's connections live.
    pub(super) runtime: Handle,
    /// The head, as it was seen last.
    pub(super) head: Option<Head>,
    /// First revisions of groups that are to be taken out of etcd.
    pub(super) emptied: Vec<u64>,
}

/// Reads the head.
pub(super) async fn read(client: &Client, keys: &Keys) -> Result<(Head, i64), StoreError> {
    let said = client.range(RangeRequest { key: keys.head(), ..RangeRequest::default() }).await?;
    let head = said.pairs.first().map(|found| read_head(&found.value, found.mod_revision)).transpose()?;
    Ok((head.unwrap_or_default(), said.revision))
}

impl Upstream for Sequence {
    fn append(&mut self, after: Tip, carried: &Carried<'_>) -> Result<Appended, StoreError> {
        let runtime = self.runtime.clone();
        let appended = runtime.block_on(self.append_here(after, carried));
        self.note(appended.as_ref().err());
        appended
    }

    fn fetch(
        &mut self,
        after: Option<Tip>,
        take: &mut dyn FnMut(Part) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let runtime = self.runtime.clone();
        let fetched = runtime.block_on(self.fetch_here(after, take));
        self.note(fetched.as_ref().err());
        fetched
    }

    fn holds(&mut self, tip: Tip) {
        self.shared.holds(tip);
    }
}

impl Sequence {
    fn note(&mut self, error: Option<&StoreError>) {
        match (error, &self.head) {
            (Some(error), _) => {
                self.head = None;
                self.shared.missed(error);
            }
            (None, Some(head)) => self.shared.saw(head.tip.revision),
            (None, None) => {}
        }
    }

    async fn append_here(&mut self, after: Tip, carried: &Carried<'_>) -> Result<Appended, StoreError> {
        if carried.group.rows.is_empty() {
            // Whoever is told that nothing changed, or of a conflict, is told of what is there now.
            let (head, _) = read(&self.client, &self.keys).await?;
            let is_current = head.tip == after;
            self.head = Some(head);
            return Ok(if is_current { Appended::Done(after) } else { Appended::Behind });
        }
        let Some(known) = self.head.clone().filter(|head| head.tip == after) else { return Ok(Appended::Behind) };
        let tip = Tip { revision: carried.group.revisions.1, stamp: draw()? };
        let first = carried.group.revisions.0;
        let (value, pieces) = self.stage(after, tip, carried).await?;
        let said = self.client.txn(self.replacing(&known, tip, value, carried)).await;
        let taken = match &said {
            Ok(TxnOutcome { succeeded: true, revision, .. }) => {
                let value = head(tip, carried.oldest);
                Some(Head { tip, oldest: carried.oldest, mod_revision: *revision, value })
            }
            // The first attempt may have been applied, and the second one found what it made.
            Ok(TxnOutcome { is_retry: true, .. }) => {
                Some(read(&self.client, &self.keys).await?.0).filter(|head| head.tip == tip)
            }
            _ => None,
        };
        if taken.is_none() && pieces > 0 && !matches!(said, Err(Error::Unavailable { .. })) {
            self.discard(first, tip.stamp).await;
        }
        said?;
        self.head = taken;
        if self.head.is_none() {
            return Ok(Appended::Behind);
        }
        self.emptied.drain(..self.emptied.len().min(DELETED_MAX));
        self.emptied.extend(carried.emptied);
        Ok(Appended::Done(tip))
    }

    /// The value of a group's record, and how many pieces of it were put beside it.
    async fn stage(&self, after: Tip, tip: Tip, carried: &Carried<'_>) -> Result<(Vec<u8>, usize), StoreError> {
        let octets = encode(after.stamp, tip.stamp, carried.group);
        if octets.len() <= INLINE_MAX {
            return Ok(([b"=".as_slice(), &octets].concat(), 0));
        }
        let pieces = octets.chunks(PIECE);
        let count = pieces.len();
        for (number, piece) in pieces.enumerate() {
            let key = self.keys.piece(carried.group.revisions.0, tip.stamp, number);
            let mut txn = Txn::default();
            txn.put(key, piece);
            self.client.txn(txn).await?;
        }
        Ok((of_pieces(tip.stamp, count, octets.len()), count))
    }

    /// A transaction that puts a record and its head, if the head is the one that is known.
    fn replacing(&self, known: &Head, tip: Tip, value: Vec<u8>, carried: &Carried<'_>) -> Txn {
        let mut txn = Txn::default();
        txn.if_mod_revision(self.keys.head(), known.mod_revision);
        if known.mod_revision != 0 {
            // After a backup was restored, etcd's own numbers may come again.
            txn.if_value(self.keys.head(), known.value.clone());
        }
        txn.put(self.keys.head(), head(tip, carried.oldest));
        txn.put(self.keys.record(carried.group.revisions.0), value);
        for revision in self.emptied.iter().take(DELETED_MAX) {
            txn.delete_range(self.keys.record(*revision), self.keys.end_of(*revision));
        }
        txn
    }

    /// Takes out pieces that have become nothing. Where that fails they go with the record of their revision.
    async fn discard(&self, revision: u64, stamp: u64) {
        let (start, end) = self.keys.pieces(revision, stamp);
        let mut txn = Txn::default();
        txn.delete_range(start, end);
        if let Err(error) = self.client.txn(txn).await {
            tracing::debug!(%error, "etcd chunks not deleted");
        }
    }

    async fn fetch_here(
        &mut self,
        after: Option<Tip>,
        take: &mut dyn FnMut(Part) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for _ in 0..COMPACTED_MAX {
            let (head, at) = read(&self.client, &self.keys).await?;
            if after == Some(head.tip) {
                self.head = Some(head);
                return Ok(());
            }
            if let Some(tip) = after.filter(|tip| tip.revision > 0 && head.tip.stamp == 0) {
                return Err(StoreError::Unavailable(format!(
                    "etcd has nothing below store.etcd.prefix, and the copy here is of revision {}: restore etcd, or take the \
                     copy (objects-copy.redb) out of the data folder to begin anew",
                    tip.revision
                )));
            }
            let is_next = |tip: &Tip| tip.revision < head.tip.revision;
            if let Some(tip) = after.filter(is_next)
                && self.pages(Some(tip), &head, at, take).await?
            {
                self.head = Some(head);
                return Ok(());
            }
            if let Some(tip) = after {
                tracing::warn!(
                    held = tip.revision,
                    found = head.tip.revision,
                    "etcd history compacted: reading all objects again"
                );
            }
            take(Part::Anew)?;
            if self.pages(None, &head, at, take).await? {
                self.head = Some(head);
                return Ok(());
            }
        }
        Err(StoreError::Unavailable(format!("etcd was compacted {COMPACTED_MAX} times while it was read")))
    }

    /// Tells all groups after a tip, or all there are; false where that cannot be, and has to begin anew.
    async fn pages(
        &self,
        after: Option<Tip>,
        head: &Head,
        at: i64,
        take: &mut dyn FnMut(Part) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let mut key = self.keys.record(after.map_or(0, |tip| tip.revision + 1));
        let range_end = self.keys.end_of(head.tip.revision);
        let (mut assembler, mut before, mut limit) = (Assembler::default(), after, 64_usize);
        loop {
            let request = RangeRequest {
                key,
                range_end: range_end.clone(),
                limit: i64::try_from(limit).unwrap_or(1),
                revision: at,
            };
            let page = match self.client.range(request.clone()).await {
                Ok(page) => page,
                Err(Error::Compacted { .. }) => return Ok(false),
                Err(Error::TooLong { .. }) if limit > 1 => {
                    (key, limit) = (request.key, (limit / 8).max(1));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut octets = 0;
            for found in &page.pairs {
                octets += found.value.len();
                let Some(record) = assembler.take(&self.keys, &found.key, &found.value)? else { continue };
                let follows = |tip: Tip| record.after == tip.stamp && record.group.revisions.0 == tip.revision + 1;
                if after.is_some() && !before.is_some_and(follows) {
                    return Ok(false);
                }
                before = Some(Tip { revision: record.group.revisions.1, stamp: record.stamp });
                take(Part::Group(record.group))?;
            }
            limit = next_limit(octets, page.pairs.len());
            let Some(last) = page.pairs.last().filter(|_| page.more) else { break };
            key = [last.key.as_slice(), b"\0"].concat();
        }
        if !assembler.is_whole() || before.unwrap_or_default() != head.tip {
            if after.is_some() {
                return Ok(false);
            }
            return Err(StoreError::Damaged(format!(
                "the records in etcd end before revision {}, which its head tells of",
                head.tip.revision
            )));
        }
        take(Part::Until(head.tip, head.oldest))?;
        Ok(true)
    }
}

/// How many keys the next page has, so that it has a few mebibytes.
fn next_limit(octets: usize, keys: usize) -> usize {
    let each = octets.checked_div(keys).unwrap_or_default().max(64);
    (PAGE / each).clamp(16, 4_096)
}

/// A number that nobody else draws; never 0, which stands for nothing.
pub(super) fn draw() -> Result<u64, StoreError> {
    let mut octets = [0; 8];
    let drawn = SystemRandom::new().fill(&mut octets);
    drawn.map_err(|_| StoreError::Unavailable("the system gives no random numbers".to_owned()))?;
    Ok(u64::from_le_bytes(octets).max(1))
}

/// Longest record that is put as one value: the longest object with its row. etcd takes 1.5 MiB a request where it is not told
/// otherwise (`--max-request-bytes`).
const INLINE_MAX: usize = (1 << 20) + (64 << 10);
/// Octets of a piece.
const PIECE: usize = 1 << 20;
/// Most records that one transaction takes out: etcd takes 128 operations (`--max-txn-ops`).
const DELETED_MAX: usize = 100;
/// How often reading begins anew because etcd was compacted meanwhile.
const COMPACTED_MAX: usize = 3;
/// Octets that a page should have.
const PAGE: usize = 4 << 20;
