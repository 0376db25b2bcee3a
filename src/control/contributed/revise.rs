//! What is contributed, with some names joined anew.

use std::{collections::BTreeSet, sync::Arc};

use fairway_model::Name;
use fairway_providers::webhook_server::Scope;

use super::{
    Contributed, ReadRow,
    join::{self, Beside, Brought},
    owners::Owners,
    part_key, records_at,
};
use crate::control::declared::Declared;
use fairway_store::objects::{Key, Kind};

/// The texts of the names whose rows other rows tell of at these keys, before and now; none where one of them is spelled in another way,
/// so that its name has rows elsewhere, too.
pub(in crate::control) fn texts_touched(before: &Declared, now: &Declared, keys: &[Key]) -> Option<BTreeSet<String>> {
    let mut touched = BTreeSet::new();
    for key in keys.iter().filter(|key| key.kind() == Kind::Contribution) {
        let (before, now) = (before.rows_at(key), now.rows_at(key));
        if before.iter().chain(now).any(ReadRow::is_spelled_otherwise) {
            return None;
        }
        join::texts_touched(before, now, &mut touched);
    }
    Some(touched)
}

impl Contributed {
    /// The same with the names of these texts joined anew; none where their rows cannot be found by name.
    pub(in crate::control) fn revised(
        &self,
        texts: &BTreeSet<String>,
        declared: &Declared,
        beside: &Beside<'_>,
    ) -> Option<Self> {
        let scopes = declared.scopes();
        let mut owners = Vec::with_capacity(scopes.len());
        for scope in &scopes {
            // Only at the root rows do not all belong to one, and others tell to whom.
            let all: Vec<&ReadRow> = match scope {
                Scope::Root => declared.rows_of(scope).collect(),
                Scope::Owner(_) => vec![],
            };
            owners.push((scope, Owners::of(scope, &all), declared.strength(scope)));
        }
        let mut changes = Vec::with_capacity(texts.len());
        for text in texts {
            if self.spelled.contains(&**text) {
                return None;
            }
            let mut rows = Vec::new();
            for (scope, owners, strength) in &owners {
                let own = declared.rows_at(&part_key(scope, text)).iter().filter(|row| *row.text == **text);
                rows.extend(own.map(|row| Brought { owner: owners.of_row(row), strength: *strength, row }));
            }
            if rows.iter().any(|brought| brought.row.is_spelled_otherwise()) {
                return None;
            }
            changes.push((Arc::from(&**text), join::join(&rows, beside)));
        }
        let mut revised = self.clone();
        revised.change(changes);
        Some(revised)
    }

    /// Whether record sets are contributed to a name.
    pub(in crate::control) fn has_records_at(&self, name: &Name) -> bool {
        records_at(&self.records, name).next().is_some()
    }
}
