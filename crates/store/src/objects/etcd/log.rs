//! The shared log in etcd: a transaction writes an entry and replaces the head, if the head is still the one that was read.

use std::sync::Arc;

use fairway_etcd::{Client, Error, RangeRequest, Txn, TxnOutcome};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::runtime::Handle;

use super::{
    super::{
        StoreError,
        local::upstream::{Appended, Fetched, LogHead, NewEntry, Upstream},
    },
    format::{Assembler, Keys, StoredHead, chunked_record, decode_head, encode, encode_head},
    status::SyncStatus,
};

/// The log, for the thread that writes the copy.
pub(super) struct EtcdLog {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    pub(super) status: Arc<SyncStatus>,
    /// Runtime of the client's connections.
    pub(super) runtime: Handle,
    /// Head that was read or written last. `None` after a failure.
    pub(super) head: Option<StoredHead>,
    /// First revisions of entries that are to be deleted from etcd.
    pub(super) expired: Vec<u64>,
}

/// Reads the head. Returns it with the revision of etcd at which it was read.
pub(super) async fn read_head(client: &Client, keys: &Keys) -> Result<(StoredHead, i64), StoreError> {
    let page = client.range(RangeRequest { key: keys.head(), ..RangeRequest::default() }).await?;
    let head = page.pairs.first().map(|pair| decode_head(&pair.value, pair.mod_revision)).transpose()?;
    Ok((head.unwrap_or_default(), page.revision))
}

impl Upstream for EtcdLog {
    fn append(&mut self, after: LogHead, new: &NewEntry<'_>) -> Result<Appended, StoreError> {
        let runtime = self.runtime.clone();
        let result = runtime.block_on(self.append_entry(after, new));
        self.update_status(result.as_ref().err());
        result
    }

    fn fetch(
        &mut self,
        after: Option<LogHead>,
        apply: &mut dyn FnMut(Fetched) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let runtime = self.runtime.clone();
        let result = runtime.block_on(self.fetch_entries(after, apply));
        self.update_status(result.as_ref().err());
        result
    }

    fn copied(&mut self, head: LogHead) {
        self.status.copied(head);
    }
}

impl EtcdLog {
    fn update_status(&mut self, error: Option<&StoreError>) {
        match (error, &self.head) {
            (Some(error), _) => {
                self.head = None;
                self.status.failed(error);
            }
            (None, Some(stored)) => self.status.answered(stored.head.revision),
            (None, None) => {}
        }
    }

    async fn append_entry(&mut self, after: LogHead, new: &NewEntry<'_>) -> Result<Appended, StoreError> {
        if new.entry.rows.is_empty() {
            // A conflict or "nothing changed" must be true of the latest state.
            let (stored, _) = read_head(&self.client, &self.keys).await?;
            let is_current = stored.head == after;
            self.head = Some(stored);
            return Ok(if is_current { Appended::Done(after) } else { Appended::Behind });
        }
        let Some(known) = self.head.clone().filter(|stored| stored.head == after) else { return Ok(Appended::Behind) };
        let head = LogHead { revision: new.entry.last_revision, nonce: draw_nonce()? };
        let (record, chunks) = self.write_chunks(after, head, new).await?;
        let outcome = self.client.txn(self.transaction(&known, head, record, new)).await;
        let written = match &outcome {
            Ok(TxnOutcome { succeeded: true, revision, .. }) => {
                let value = encode_head(head, new.oldest);
                Some(StoredHead { head, oldest: new.oldest, mod_revision: *revision, value })
            }
            // The first attempt may have been applied, and the second one found its own head.
            Ok(TxnOutcome { is_retry: true, .. }) => {
                Some(read_head(&self.client, &self.keys).await?.0).filter(|stored| stored.head == head)
            }
            _ => None,
        };
        if written.is_none() && chunks > 0 && !matches!(outcome, Err(Error::Unavailable { .. })) {
            self.delete_chunks(new.entry.first_revision, head.nonce).await;
        }
        outcome?;
        self.head = written;
        if self.head.is_none() {
            return Ok(Appended::Behind);
        }
        self.expired.drain(..self.expired.len().min(DELETED_MAX));
        self.expired.extend(new.expired);
        Ok(Appended::Done(head))
    }

    /// Writes the chunks of a long entry. Returns the value of its record and the number of chunks, which is 0 for a short entry.
    async fn write_chunks(
        &self,
        after: LogHead,
        head: LogHead,
        new: &NewEntry<'_>,
    ) -> Result<(Vec<u8>, usize), StoreError> {
        let bytes = encode(after.nonce, head.nonce, new.entry);
        if bytes.len() <= INLINE_MAX {
            return Ok(([b"=".as_slice(), &bytes].concat(), 0));
        }
        let chunks = bytes.chunks(CHUNK);
        let count = chunks.len();
        for (number, chunk) in chunks.enumerate() {
            let mut txn = Txn::default();
            txn.put(self.keys.chunk(new.entry.first_revision, head.nonce, number), chunk);
            self.client.txn(txn).await?;
        }
        Ok((chunked_record(head.nonce, count, bytes.len()), count))
    }

    /// Returns the transaction that writes a record and its head, if the head is still `known`.
    fn transaction(&self, known: &StoredHead, head: LogHead, record: Vec<u8>, new: &NewEntry<'_>) -> Txn {
        let mut txn = Txn::default();
        txn.if_mod_revision(self.keys.head(), known.mod_revision);
        if known.mod_revision != 0 {
            // After a backup was restored, etcd repeats its own revisions.
            txn.if_value(self.keys.head(), known.value.clone());
        }
        txn.put(self.keys.head(), encode_head(head, new.oldest));
        txn.put(self.keys.record(new.entry.first_revision), record);
        for revision in self.expired.iter().take(DELETED_MAX) {
            txn.delete_range(self.keys.record(*revision), self.keys.end_of(*revision));
        }
        txn
    }

    /// Deletes the chunks of an entry that was not appended. If that fails, they are deleted with the record of their revision.
    async fn delete_chunks(&self, revision: u64, nonce: u64) {
        let (start, end) = self.keys.chunks(revision, nonce);
        let mut txn = Txn::default();
        txn.delete_range(start, end);
        if let Err(error) = self.client.txn(txn).await {
            tracing::debug!(%error, "etcd chunks not deleted");
        }
    }

    async fn fetch_entries(
        &mut self,
        after: Option<LogHead>,
        apply: &mut dyn FnMut(Fetched) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        for _ in 0..RESTARTS_MAX {
            let (stored, at) = read_head(&self.client, &self.keys).await?;
            let head = stored.head;
            if after == Some(head) {
                self.head = Some(stored);
                return Ok(());
            }
            if let Some(copied) = after {
                if copied.revision > 0 && head.nonce == 0 {
                    return Err(StoreError::Unavailable(format!(
                        "etcd has nothing below store.etcd.prefix, and the copy here has revision {}: restore etcd, or remove the \
                         copy (objects-copy.redb) from the data folder to start empty",
                        copied.revision
                    )));
                }
                if copied.revision < head.revision && self.read_entries(Some(copied), &stored, at, apply).await? {
                    self.head = Some(stored);
                    return Ok(());
                }
                tracing::warn!(
                    held = copied.revision,
                    found = head.revision,
                    "etcd history compacted: reading all objects again"
                );
            }
            apply(Fetched::Restart)?;
            if self.read_entries(None, &stored, at, apply).await? {
                self.head = Some(stored);
                return Ok(());
            }
        }
        Err(StoreError::Unavailable(format!("etcd was compacted {RESTARTS_MAX} times while it was read")))
    }

    /// Reads the entries after a head, or all entries. Returns false if the copy has to start over: entries after it were deleted, or it
    /// belongs to another log.
    async fn read_entries(
        &self,
        after: Option<LogHead>,
        stored: &StoredHead,
        at: i64,
        apply: &mut dyn FnMut(Fetched) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let mut key = self.keys.record(after.map_or(0, |head| head.revision + 1));
        let range_end = self.keys.end_of(stored.head.revision);
        let (mut assembler, mut last, mut limit) = (Assembler::default(), after, PAGE_FIRST);
        loop {
            let limit_value = i64::try_from(limit).unwrap_or(1);
            let request = RangeRequest { key, range_end: range_end.clone(), limit: limit_value, revision: at };
            let page = match self.client.range(request.clone()).await {
                Ok(page) => page,
                Err(Error::Compacted { .. }) => return Ok(false),
                Err(Error::TooLong { .. }) if limit > 1 => {
                    (key, limit) = (request.key, (limit / 8).max(1));
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut bytes = 0;
            for pair in &page.pairs {
                bytes += pair.value.len();
                let Some(record) = assembler.take(&self.keys, &pair.key, &pair.value)? else { continue };
                let is_next = |head: LogHead| {
                    record.previous_nonce == head.nonce && record.entry.first_revision == head.revision + 1
                };
                if after.is_some() && !last.is_some_and(is_next) {
                    return Ok(false);
                }
                last = Some(LogHead { revision: record.entry.last_revision, nonce: record.nonce });
                apply(Fetched::Entry(record.entry))?;
            }
            limit = next_limit(bytes, page.pairs.len());
            let Some(pair) = page.pairs.last().filter(|_| page.more) else { break };
            key = [pair.key.as_slice(), b"\0"].concat();
        }
        if !assembler.is_complete() || last.unwrap_or_default() != stored.head {
            if after.is_some() {
                return Ok(false);
            }
            let revision = stored.head.revision;
            return Err(StoreError::Damaged(format!("the records in etcd end before revision {revision} of the head")));
        }
        apply(Fetched::End { head: stored.head, oldest: stored.oldest })?;
        Ok(true)
    }
}

/// Returns the number of keys of the next page, so that it has about `PAGE` bytes.
fn next_limit(bytes: usize, keys: usize) -> usize {
    let mean = bytes.checked_div(keys).unwrap_or_default().max(64);
    (PAGE / mean).clamp(16, 4_096)
}

/// Returns a random number other than 0, which means "none".
pub(super) fn draw_nonce() -> Result<u64, StoreError> {
    let mut bytes = [0; 8];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| StoreError::Unavailable("the system has no random numbers".to_owned()))?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

/// Maximum length of an entry in one value: the longest object (1 MiB) with its row. etcd's default for a request is 1.5 MiB
/// (`--max-request-bytes`).
const INLINE_MAX: usize = (1 << 20) + (64 << 10);
/// Bytes of a chunk.
const CHUNK: usize = 1 << 20;
/// Maximum number of entries that one transaction deletes. etcd's default is 128 operations (`--max-txn-ops`).
const DELETED_MAX: usize = 100;
/// Attempts to read the log while etcd is being compacted.
const RESTARTS_MAX: usize = 3;
/// Aim for the bytes of a page. Long enough that reading a large log takes few calls, short beside `call_timeout`.
const PAGE: usize = 4 << 20;
/// Keys of the first page, before their length is known: 64 values of 1 MiB fit the client's bound on a message.
const PAGE_FIRST: usize = 64;
