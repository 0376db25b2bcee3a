//! States of the log, compiled again.

use std::{
    collections::HashMap,
    io,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use fairway_model::{DesiredState, Health, SharedMap, Shares, Timestamp};
use fairway_zones::{RuntimeState, SavedRuntime, ServingState, Snapshot};

use crate::{
    files::{LogFile, Record, RecordKind, files, micros},
    record_wire::{Change, Ids, Items, SharesChange, Unreadable},
};

/// A state of the past.
#[derive(Clone, Debug)]
pub struct Past {
    /// The serving state, compiled again.
    pub serving: ServingState,
    /// Its desired state.
    pub desired: Arc<DesiredState>,
    /// Time from which it was served.
    pub since: Timestamp,
    /// Number of states between this one and the next of the log that were left out: one of them may have been served.
    pub skipped: u32,
    /// Comparison of its ids with those of the log.
    pub exactness: Exactness,
}

/// Comparison of a compiled state with the one that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The same state.
    Exact,
    /// The same but for the records of zone files, which the log does not have: those of today are in their place.
    OtherZoneFiles,
    /// Others: location maps, latency tables or the program changed since.
    Other,
}

/// Reason why there is no state of a time.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    /// The log begins later, or is empty.
    #[error("{}", match begins {
        Some(begins) => format!("the change log begins at {begins}; give a later time, or keep more of it (history.bytes)"),
        None => "the change log has no state yet".to_owned(),
    })]
    NotKept {
        /// The first state of the log.
        begins: Option<Timestamp>,
    },
    /// Another version wrote the states.
    #[error("the states of that time were written by another version of fairway, which this one cannot read")]
    Format,
    /// A record is damaged.
    #[error("the change log is damaged at {0}")]
    Damaged(Timestamp),
    /// The state of that time does not compile with the zone files of today.
    #[error("the state of that time does not compile with the zone files of today: {0}")]
    Compile(String),
    /// A file cannot be read.
    #[error("the change log cannot be read: {0}")]
    Read(#[from] io::Error),
}

/// The states of a log in order of time.
pub struct PastStates {
    records: Box<dyn Iterator<Item = Record> + Send>,
    /// The change after the folded ones, with its time.
    next: Option<(u64, Change<'static>)>,
    folded: Folded,
    /// Snapshot of the folded desired state, once it was needed.
    compiled: Option<(Arc<DesiredState>, Arc<Snapshot>)>,
}

impl PastStates {
    /// Opens a log at a time. Call [`Self::go_to`] with this time or a later one.
    ///
    /// # Errors
    ///
    /// [`PastError::NotKept`] if the log has no state of that time, and errors of reading.
    pub fn open(folder: &Path, at: Timestamp) -> Result<Self, PastError> {
        let files = files(folder)?;
        let first_state = |file: &LogFile| -> io::Result<Option<u64>> {
            Ok(file.records(&[RecordKind::State])?.next().map(|record| record.micros))
        };
        let mut begins = None;
        for first in (0..files.len()).rev() {
            let Some(state) = first_state(&files[first])? else { continue };
            begins = Some(moment(state));
            if state <= micros(at) {
                let rest = files.into_iter().skip(first);
                let records = rest.flat_map(|file| file.records(&[RecordKind::State]).into_iter().flatten());
                return Ok(Self { records: Box::new(records), next: None, folded: Folded::default(), compiled: None });
            }
        }
        Err(PastError::NotKept { begins })
    }

    /// Moves forward to the state that was served at a time.
    ///
    /// # Errors
    ///
    /// A record cannot be read.
    pub fn go_to(&mut self, at: Timestamp) -> Result<(), PastError> {
        loop {
            if self.next.is_none() {
                let record = self.records.next();
                let decoded = record.map(|Record { micros, content, .. }| match Change::decode(&content) {
                    Ok(change) => Ok((micros, change)),
                    Err(Unreadable::Format) => Err(PastError::Format),
                    Err(Unreadable::Damaged) => Err(PastError::Damaged(moment(micros))),
                });
                self.next = decoded.transpose()?;
            }
            match self.next.take_if(|(begin, _)| *begin <= micros(at)) {
                Some((begin, change)) => {
                    if self.folded.apply(change, begin) {
                        self.compiled = None;
                    }
                }
                None => return Ok(()),
            }
        }
    }

    /// Returns the state. What the log does not have is taken from the present one: records of zone files, maps and latency tables, options.
    ///
    /// # Errors
    ///
    /// [`PastError::Compile`].
    pub fn compile(&mut self, present: &Snapshot, desired_now: &DesiredState) -> Result<Past, PastError> {
        let (desired, snapshot) = match &self.compiled {
            Some(compiled) => compiled.clone(),
            None => {
                let desired = Arc::new(self.folded.desired_with(desired_now));
                let compiled = present.recompiled(&desired).map_err(|errors| {
                    let errors: Vec<_> = errors.iter().take(ERRORS_SHOWN).map(ToString::to_string).collect();
                    PastError::Compile(errors.join("; "))
                })?;
                self.compiled.insert((desired, Arc::new(compiled))).clone()
            }
        };
        let Folded { health, runtime, shares, ids, since, .. } = &self.folded;
        let health_of = |target: u64| health.get(&target).copied().unwrap_or(Health::PENDING);
        let runtime = Arc::new(RuntimeState::restored(&snapshot, runtime, shares.as_ref(), health_of));
        let now = Ids { snapshot: snapshot.id(), text: snapshot.text_id(), runtime: runtime.id() };
        let steered = |ids: &Ids| (ids.snapshot.wrapping_sub(ids.text), ids.runtime);
        let exactness = match () {
            () if now == *ids => Exactness::Exact,
            () if steered(&now) == steered(ids) => Exactness::OtherZoneFiles,
            () => Exactness::Other,
        };
        let skipped = self.next.as_ref().map_or(0, |(_, next)| next.skipped);
        let serving = ServingState { snapshot, runtime };
        Ok(Past { serving, desired, since: moment(*since), skipped, exactness })
    }
}

/// The sum of all changes so far.
#[derive(Default)]
struct Folded {
    desired: DesiredState,
    health: HashMap<u64, Health>,
    runtime: SavedRuntime,
    shares: Option<Arc<Shares>>,
    ids: Ids,
    since: u64,
}

impl Folded {
    /// Applies a change. Returns true if the desired state is another one.
    fn apply(&mut self, change: Change<'static>, at: u64) -> bool {
        let Change {
            is_whole,
            skipped: _,
            ids,
            zones,
            clusters,
            monitors,
            pools,
            names,
            records,
            health,
            runtime,
            shares,
        } = change;
        if is_whole {
            *self = Self::default();
        }
        let is_changed = is_whole || ids.snapshot != self.ids.snapshot;
        (self.ids, self.since) = (ids, at);
        if let Some(zones) = zones {
            self.desired.zones = zones.into_owned();
        }
        fold(&mut self.desired.clusters, clusters);
        fold(&mut self.desired.monitors, monitors);
        fold(&mut self.desired.pools, pools);
        fold(&mut self.desired.names, names);
        fold(&mut self.desired.records, records);
        for (target, health) in health {
            match health {
                Some(health) => drop(self.health.insert(target, health)),
                None => drop(self.health.remove(&target)),
            }
        }
        if let Some(runtime) = runtime {
            self.runtime = runtime.into();
        }
        if let Some(shares) = shares {
            self.apply_shares(shares);
        }
        is_changed
    }

    fn apply_shares(&mut self, change: SharesChange) {
        match change {
            SharesChange::Whole(shares) => self.shares = shares.map(Arc::new),
            SharesChange::Slots { epoch, parts, slots } => {
                let shares = Arc::make_mut(self.shares.get_or_insert_default());
                (shares.epoch, shares.parts) = (epoch, parts);
                for (table, slot, backend) in slots {
                    let slots = shares.tables.get_mut(table as usize).map(|table| &mut table.slots);
                    if let Some(kept) = slots.and_then(|slots| slots.get_mut(usize::from(slot))) {
                        *kept = backend;
                    }
                }
            }
        }
    }

    fn desired_with(&self, now: &DesiredState) -> DesiredState {
        let DesiredState { zones, clusters, monitors, pools, names, records, .. } = self.desired.clone();
        DesiredState { zones, clusters, monitors, pools, names, records, ..now.clone() }
    }
}

fn fold<K: Ord + Clone, V: Clone>(map: &mut SharedMap<K, V>, items: Items<'static, K, V>) {
    for (key, value) in items {
        match value {
            Some(value) => drop(map.insert(key.into_owned(), value.into_owned())),
            None => drop(map.remove(&*key)),
        }
    }
}

/// Returns the moment that is this many µs after 1970.
pub fn moment(micros: u64) -> Timestamp {
    Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_micros(micros))
}

/// Number of errors of a compilation in a message.
const ERRORS_SHOWN: usize = 3;
