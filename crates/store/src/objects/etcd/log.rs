//! The shared log in etcd: a transaction writes an entry and replaces the head, if the head is still the one that was read.

use std::sync::Arc;

use fairway_etcd::{Client, ErrorKind, KeyValue, RangeRequest, Txn, TxnOutcome};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::runtime::Handle;

use super::{
    super::{
        StoreError,
        local::{
            TableWriter,
            upstream::{Fetched, LogEntry, LogHead},
        },
    },
    format::{Keys, Record, StoredHead, StoredRecord, decode, decode_head, encode, encode_head},
    status::SyncStatus,
};

/// The log, for the thread that writes the copy.
pub(in super::super) struct EtcdLog {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    pub(in super::super) status: Arc<SyncStatus>,
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

impl EtcdLog {
    /// Appends an entry, if `after` is the head. Returns the new head once the entry is durable; `None` if another server appended first:
    /// fetch, and apply the batches again.
    ///
    /// `oldest` is the oldest revision that can be watched from after this entry, and `expired` has the first revisions of earlier entries
    /// that the history no longer needs.
    pub(in super::super) fn append(
        &mut self,
        after: LogHead,
        entry: &LogEntry,
        oldest: u64,
        expired: &[u64],
    ) -> Result<Option<LogHead>, StoreError> {
        self.run(async |log| log.append_entry(after, entry, oldest, expired).await)
    }

    /// Writes the entries after a head to the copy, or all entries. Returns `None` if there is nothing new.
    pub(in super::super) fn fetch(
        &mut self,
        after: Option<LogHead>,
        copy: &mut TableWriter<'_>,
    ) -> Result<Option<Fetched>, StoreError> {
        self.run(async |log| log.fetch_entries(after, copy).await)
    }

    /// Runs calls of etcd on this thread, and updates the status by their result.
    fn run<T>(&mut self, calls: impl AsyncFnOnce(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let runtime = self.runtime.clone();
        let result = runtime.block_on(calls(self));
        match (&result, &self.head) {
            (Err(error), _) => {
                self.head = None;
                self.status.failed(error);
            }
            (Ok(_), Some(stored)) => self.status.answered(stored.head.revision),
            (Ok(_), None) => {}
        }
        result
    }

    async fn append_entry(
        &mut self,
        after: LogHead,
        entry: &LogEntry,
        oldest: u64,
        expired: &[u64],
    ) -> Result<Option<LogHead>, StoreError> {
        if entry.rows.is_empty() {
            // A conflict or "nothing changed" must be true of the latest state.
            let (stored, _) = read_head(&self.client, &self.keys).await?;
            let is_current = stored.head == after;
            self.head = Some(stored);
            return Ok(is_current.then_some(after));
        }
        let Some(known) = self.head.clone().filter(|stored| stored.head == after) else { return Ok(None) };
        let head = LogHead { revision: entry.last_revision, nonce: draw_nonce()? };
        let (record, chunks) = self.write_chunks(after, head, entry).await?;
        let outcome = self.client.txn(self.transaction(&known, head, oldest, entry.first_revision, record)).await;
        let written = match &outcome {
            Ok(TxnOutcome { succeeded: true, revision, .. }) => {
                let value = encode_head(head, oldest);
                Some(StoredHead { head, oldest, mod_revision: *revision, value })
            }
            // The first attempt may have been applied, and the second one found its own head.
            Ok(TxnOutcome { is_retry: true, .. }) => {
                Some(read_head(&self.client, &self.keys).await?.0).filter(|stored| stored.head == head)
            }
            _ => None,
        };
        if written.is_none() && chunks > 0 && !outcome.as_ref().is_err_and(|error| error.kind.is_transient()) {
            self.delete_chunks(entry.first_revision, head.nonce).await;
        }
        outcome?;
        self.head = written;
        if self.head.is_none() {
            return Ok(None);
        }
        self.expired.drain(..self.expired.len().min(DELETED_MAX));
        self.expired.extend(expired);
        Ok(Some(head))
    }

    /// Writes the chunks of a long entry. Returns the value of its record and the number of chunks, which is 0 for a short entry.
    async fn write_chunks(
        &self,
        after: LogHead,
        head: LogHead,
        entry: &LogEntry,
    ) -> Result<(Vec<u8>, usize), StoreError> {
        let bytes = encode(after.nonce, head.nonce, entry);
        if bytes.len() <= INLINE_MAX {
            return Ok((StoredRecord::Entry(&bytes).encode(), 0));
        }
        let chunks = bytes.chunks(CHUNK);
        let count = chunks.len();
        for (number, chunk) in chunks.enumerate() {
            let mut txn = Txn::default();
            txn.put(self.keys.chunk(entry.first_revision, head.nonce, number), chunk);
            self.client.txn(txn).await?;
        }
        let record = StoredRecord::Chunks { nonce: head.nonce, count, length: bytes.len() };
        Ok((record.encode(), count))
    }

    /// Returns the transaction that writes a record and its head, if the head is still `known`.
    fn transaction(&self, known: &StoredHead, head: LogHead, oldest: u64, revision: u64, record: Vec<u8>) -> Txn {
        let mut txn = Txn::default();
        txn.if_mod_revision(self.keys.head(), known.mod_revision);
        if known.mod_revision != 0 {
            // After a backup was restored, etcd repeats its own revisions.
            txn.if_value(self.keys.head(), known.value.clone());
        }
        txn.put(self.keys.head(), encode_head(head, oldest));
        txn.put(self.keys.record(revision), record);
        for expired in self.expired.iter().take(DELETED_MAX) {
            txn.delete_range(self.keys.record(*expired), self.keys.end_of(*expired));
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
        mut after: Option<LogHead>,
        copy: &mut TableWriter<'_>,
    ) -> Result<Option<Fetched>, StoreError> {
        let before = after;
        for _ in 0..ATTEMPTS_MAX {
            let (stored, at) = read_head(&self.client, &self.keys).await?;
            let head = stored.head;
            if after == Some(head) {
                self.head = Some(stored);
                return Ok(None);
            }
            if let Some(copied) = after.filter(|copied| copied.revision > 0 && head.nonce == 0) {
                return Err(StoreError::Unavailable(format!(
                    "etcd has nothing below store.etcd.prefix, and the copy here has revision {}: restore etcd, or remove the copy \
                     (objects-copy.redb) from the data folder to start empty",
                    copied.revision
                )));
            }
            if after.is_none() {
                copy.clear()?;
            }
            let is_behind = after.is_none_or(|copied| copied.revision < head.revision);
            if is_behind && self.read_entries(after, &stored, at, copy).await? {
                let fetched = Fetched { head, oldest: stored.oldest, is_restart: after.is_none() };
                if let (true, Some(copied)) = (fetched.is_restart, before) {
                    let (held, found) = (copied.revision, head.revision);
                    tracing::warn!(held, found, "etcd history compacted: reading all objects again");
                }
                self.head = Some(stored);
                return Ok(Some(fetched));
            }
            after = None;
        }
        Err(StoreError::Unavailable(format!("etcd was compacted {ATTEMPTS_MAX} times while it was read")))
    }

    /// Writes the entries after a head to the copy, or all entries. Returns false if the copy has to start over: entries after it were
    /// deleted, or it belongs to another log.
    async fn read_entries(
        &self,
        after: Option<LogHead>,
        stored: &StoredHead,
        at: i64,
        copy: &mut TableWriter<'_>,
    ) -> Result<bool, StoreError> {
        let range_end = self.keys.end_of(stored.head.revision);
        let (mut last, mut limit) = (after, PAGE_FIRST);
        let mut next = Some(self.keys.record(after.map_or(0, |head| head.revision + 1)));
        while let Some(key) = next.take() {
            let request = RangeRequest { key, range_end: range_end.clone(), limit, revision: at };
            let page = match self.client.range(request.clone()).await {
                Ok(page) => page,
                Err(error) if error.kind == ErrorKind::Compacted => return Ok(false),
                Err(error) if error.kind == ErrorKind::TooLong && limit > 1 => {
                    limit = (limit / 8).max(1);
                    next = Some(request.key);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            check_order(&request, &page.pairs)?;
            limit = next_limit(&page.pairs);
            next = page.pairs.last().filter(|_| page.more).map(|pair| [pair.key.as_slice(), b"\0"].concat());
            for pair in page.pairs {
                let (revision, is_chunk) = self.keys.parse(&pair.key)?;
                if is_chunk {
                    // Left by a server that lost the race, or of a record that was deleted.
                    continue;
                }
                let value = StoredRecord::parse(&pair)?;
                let Some(record) = self.read_record(revision, &value, at).await? else { return Ok(false) };
                let is_next = |head: LogHead| {
                    record.previous_nonce == head.nonce && record.entry.first_revision == head.revision + 1
                };
                if after.is_some() && !last.is_some_and(is_next) {
                    return Ok(false);
                }
                last = Some(LogHead { revision: record.entry.last_revision, nonce: record.nonce });
                copy.apply_entry(&record.entry)?;
                if matches!(value, StoredRecord::Chunks { .. }) {
                    // The chunks, which come next, were read.
                    next = Some(self.keys.end_of(revision));
                    break;
                }
            }
        }
        let is_complete = last.unwrap_or_default() == stored.head;
        if !is_complete && after.is_none() {
            let revision = stored.head.revision;
            return Err(StoreError::Damaged(format!("the records in etcd end before revision {revision} of the head")));
        }
        Ok(is_complete)
    }

    /// Returns a record, with the chunks of a long one. Returns `None` if etcd has compacted the revision that is read.
    async fn read_record(
        &self,
        revision: u64,
        value: &StoredRecord<'_>,
        at: i64,
    ) -> Result<Option<Record>, StoreError> {
        let (nonce, count, length) = match *value {
            StoredRecord::Entry(bytes) => return decode(bytes).map(Some),
            StoredRecord::Chunks { nonce, count, length } => (nonce, count, length),
        };
        let mut bytes = Vec::with_capacity(length);
        for number in 0..count {
            let key = self.keys.chunk(revision, nonce, number);
            match self.client.range(RangeRequest { key, revision: at, ..RangeRequest::default() }).await {
                Ok(page) => {
                    let chunk = page.pairs.first().map_or(&[][..], |pair| &pair.value);
                    if chunk.is_empty() || bytes.len() + chunk.len() > length {
                        break;
                    }
                    bytes.extend(chunk);
                }
                Err(error) if error.kind == ErrorKind::Compacted => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        if bytes.len() != length {
            return Err(StoreError::Damaged(format!(
                "a chunk of the record of revision {revision} in etcd is missing or too long"
            )));
        }
        decode(&bytes).map(Some)
    }
}

/// Checks that a page has keys of its range in their order: reading would not end if it began again and again.
fn check_order(request: &RangeRequest, pairs: &[KeyValue]) -> Result<(), StoreError> {
    let keys = || pairs.iter().map(|pair| &pair.key);
    let is_within = keys().all(|key| (&request.key..&request.range_end).contains(&key));
    if is_within && keys().is_sorted_by(|one, next| one < next) {
        return Ok(());
    }
    Err(StoreError::Damaged("etcd returned keys that were not asked for, or not in their order".to_owned()))
}

/// Returns the number of keys of the next page, so that it has about `PAGE` bytes.
fn next_limit(pairs: &[KeyValue]) -> i64 {
    let bytes: usize = pairs.iter().map(|pair| pair.value.len()).sum();
    let mean = bytes.checked_div(pairs.len()).unwrap_or_default().max(64);
    i64::try_from(PAGE / mean).unwrap_or(i64::MAX).clamp(PAGE_FIRST, 4_096)
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
/// Maximum number of attempts to read the log while etcd is being compacted.
const ATTEMPTS_MAX: usize = 3;
/// Target size of a page in bytes. Large enough that reading a large log takes few calls, and small enough for `call_timeout`.
const PAGE: usize = 4 << 20;
/// Keys of the first page, before their length is known: 4 values of 1 MiB fit the client's bound on a message.
const PAGE_FIRST: i64 = 4;
