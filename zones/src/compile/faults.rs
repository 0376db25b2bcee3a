//! Errors about steered names and declared records, and the records of zone files at which they are located.

use std::collections::HashMap;

use fairway_model::{Diagnostic, FileLocation, Name, Rtype, Subject};
use fairway_zonefile::ZoneData;

use super::upper::CONFIGURATION;
use crate::snapshot::TextLayer;

/// Diagnostics of the upper layer.
#[derive(Default)]
pub(super) struct Faults {
    list: Vec<Diagnostic>,
    /// Indices of the diagnostics about a record of a zone, whose location is found at the end.
    unlocated: HashMap<RecordKey, Vec<usize>>,
}

/// Zone, owner and type of a record in the text.
pub(super) type RecordKey = (u16, Name, Rtype);

impl Faults {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push(&mut self, fault: Diagnostic) {
        self.list.push(fault);
    }

    /// Adds an error about a steered name.
    pub(super) fn about_name(&mut self, name: &Name, what: String, hint: &str) {
        let fault = Diagnostic::error(FileLocation::file(CONFIGURATION), what, hint);
        self.list.push(fault.about(Subject::Name(name.clone())));
    }

    /// Adds an error about a steered name, at the location of a zone's record.
    pub(super) fn at_record(&mut self, name: &Name, record: RecordKey, what: String, hint: &str) {
        self.unlocated.entry(record).or_default().push(self.list.len());
        self.about_name(name, what, hint);
    }

    /// Returns the diagnostics. Those about records get their locations in one walk over the zones; without these they
    /// keep their own.
    pub(super) fn located(mut self, text: &TextLayer, zones: &[ZoneData]) -> Vec<Diagnostic> {
        let numbers: HashMap<&Name, u16> = match self.unlocated.is_empty() {
            true => HashMap::new(),
            false => text.zones.iter().map(|zone| &zone.origin).zip(0..).collect(),
        };
        for zone in zones {
            let Some(&number) = numbers.get(&zone.origin) else { continue };
            for record in &zone.records {
                if self.unlocated.is_empty() {
                    return self.list;
                }
                for fault in self.unlocated.remove(&(number, record.owner.clone(), record.rtype)).unwrap_or_default() {
                    self.list[fault].location = zone.place(record);
                }
            }
        }
        self.list
    }
}
