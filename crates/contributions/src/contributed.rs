//! Merged contributions. Each name is merged alone, so that a change costs in proportion to what it touches.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::{
    ContributionProblem, DesiredState, Diagnostic, MergedNames, Name, PoolName, RecordSet, Rtype, SharedMap, Subject,
};
use fairway_providers::plain_name;

use super::merge_rows::{MergeContext, MergedRows, OwnedRow, merge};

/// Contributed records that are excluded from the answers, with the reasons: those of one type at a name, or of all types. So an owner
/// whose record conflicts with those of others loses that record, and the others lose nothing.
pub type RejectedNames = BTreeMap<(Name, Option<Rtype>), String>;

/// Merged contributions. Each name is merged alone, so that a change costs in proportion to what it touches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contributed {
    /// The contributions to steered names, merged.
    pub merged_names: MergedNames,
    /// Merged record sets.
    records: DesiredState,
    /// Warnings, by the text of their name.
    warnings: SharedMap<Arc<str>, Arc<[ContributionProblem]>>,
    /// Names with a row whose spelling differs from the text of the name, in both spellings.
    respelled: BTreeSet<Arc<str>>,
}

impl Contributed {
    /// Merges rows with what is declared: all rows, or those of the given names, the others as before.
    ///
    /// Returns `None` if the rows of such a name cannot be found by its text.
    pub fn merged(
        before: Option<(&Self, &BTreeSet<String>)>,
        mut rows: Vec<OwnedRow<'_>>,
        context: &MergeContext<'_>,
    ) -> Option<Self> {
        let mut contributed = before.map(|(before, _)| before.clone()).unwrap_or_default();
        let mut respelled = rows.iter().map(|owned| owned.row).filter(|row| row.is_respelled());
        match before {
            Some((before, texts)) => {
                if respelled.next().is_some() || texts.iter().any(|text| before.respelled.contains(&**text)) {
                    return None;
                }
            }
            None => {
                for row in respelled {
                    contributed.respelled.insert(Arc::clone(&row.text));
                    contributed.respelled.insert(plain_name(&row.row.endpoint.dns_name).into());
                }
            }
        }
        // The sort keeps the order of clients and rows.
        rows.sort_by(|a, b| a.row.text.cmp(&b.row.text));
        let of_texts = rows.chunk_by(|a, b| a.row.text == b.row.text);
        let has_rows = |text: &str| rows.binary_search_by(|owned| (*owned.row.text).cmp(text)).is_ok();
        let gone = before.into_iter().flat_map(|(_, texts)| texts).filter(|text| !has_rows(text));
        let merged = of_texts.map(|rows| (Arc::clone(&rows[0].row.text), merge(rows, context)));
        contributed.change(merged.chain(gone.map(|text| (Arc::from(&**text), MergedRows::default()))));
        Some(contributed)
    }

    /// Returns true if record sets are contributed to a name.
    pub fn has_records_at(&self, name: &Name) -> bool {
        self.records.records_at(name).next().is_some()
    }

    /// Returns what all contributions declare together.
    pub fn desired(&self) -> DesiredState {
        DesiredState { records: self.records.records.clone(), ..self.merged_names.desired().clone() }
    }

    /// Returns all warnings.
    pub fn warnings(&self) -> impl Iterator<Item = ContributionProblem> {
        let of_names = self.warnings.values().flat_map(|warnings| warnings.iter().cloned());
        of_names.chain(self.merged_names.disputes())
    }

    /// Returns the contributions that are not in the answers to their names.
    pub fn refusals(&self) -> impl Iterator<Item = &ContributionProblem> {
        self.warnings.values().flat_map(|warnings| warnings.iter()).filter(|warning| warning.is_refused)
    }

    /// Returns the number of warnings.
    pub fn warnings_len(&self) -> usize {
        let of_names = self.warnings.values().map(|warnings| warnings.len());
        of_names.sum::<usize>() + self.merged_names.disputes().len()
    }

    /// Returns true if nothing is contributed.
    pub fn is_empty(&self) -> bool {
        self.merged_names.names().next().is_none() && self.records.records.is_empty() && self.warnings.is_empty()
    }

    /// Replaces the merged rows of these texts.
    fn change(&mut self, changes: impl IntoIterator<Item = (Arc<str>, MergedRows)>) {
        let mut steered = Vec::new();
        for (text, MergedRows { of_name, records, warnings }) in changes {
            if warnings.is_empty() {
                self.warnings.remove(&text);
            } else {
                self.warnings.insert(Arc::clone(&text), warnings.into());
            }
            // A text that is no name has neither records nor steered names.
            let Ok(name) = text.parse::<Name>() else { continue };
            let gone: Vec<_> = self.records.records_at(&name).map(RecordSet::key).collect();
            for key in &gone {
                self.records.records.remove(key);
            }
            self.records.records.extend(records.into_values().map(|set| (set.key(), set)));
            steered.push((name, of_name));
        }
        self.merged_names.change(steered);
    }

    /// Rejects the contributed names that errors are about. Returns false if there is no such name that was not rejected before.
    pub fn reject(&self, errors: &[Diagnostic], rejected: &mut RejectedNames) -> bool {
        let mut found = false;
        for error in errors.iter().filter(|error| error.is_error()) {
            let Some(subject) = &error.about else { continue };
            let (names, rtype) = match subject {
                Subject::Records(name, rtype) if self.records.records.contains_key(&(name.clone(), *rtype)) => {
                    (vec![name.clone()], Some(*rtype))
                }
                subject => (self.names_of(subject), None),
            };
            for name in names {
                found |= rejected.insert((name, rtype), format!("{}; {}", error.fact, error.hint)).is_none();
            }
        }
        found
    }

    /// Rejects all contributed names. Returns false if all were rejected before.
    pub fn reject_all(&self, errors: &[Diagnostic], rejected: &mut RejectedNames) -> bool {
        let why = errors.iter().find(|error| error.is_error()).map(ToString::to_string).unwrap_or_default();
        let records = self.records.records.keys().map(|(name, _)| name);
        let names = self.merged_names.desired().names.keys().chain(records);
        let before = rejected.len();
        rejected.extend(names.map(|name| ((name.clone(), None), why.clone())));
        rejected.len() > before
    }

    /// Returns the contributed names that a subject belongs to.
    fn names_of(&self, subject: &Subject) -> Vec<Name> {
        let desired = self.merged_names.desired();
        let of_pool = |pool: &PoolName| {
            let own = desired.names.values().filter(|steered| steered.pool == *pool);
            own.map(|steered| steered.name.clone()).collect()
        };
        match subject {
            Subject::Name(name) if desired.names.contains_key(name) => vec![name.clone()],
            Subject::Name(name) | Subject::Records(name, _) => {
                self.has_records_at(name).then(|| name.clone()).into_iter().collect()
            }
            Subject::Pool(pool) | Subject::Member(pool, _) => of_pool(pool),
            Subject::Cluster(cluster) if desired.clusters.contains_key(cluster) => {
                let has = |pool: &PoolName| {
                    desired.pools.get(pool).is_some_and(|pool| pool.members.iter().any(|m| m.cluster == *cluster))
                };
                let own = desired.names.values().filter(|steered| has(&steered.pool));
                own.map(|steered| steered.name.clone()).collect()
            }
            _ => vec![],
        }
    }
}
