//! The webhook contributions among declared objects.

use std::{collections::BTreeSet, sync::Arc};

use fairway_contributions::{
    ClientRows, LeaseWeights, OwnedRow, ReadPart, ReadRow, RowOwners, Withdrawn, changed_texts, part_key, scope_name,
    scope_of, seen_key, tenant_of,
};
use fairway_model::Permille;
use fairway_providers::webhook_server::Scope;
use fairway_store::objects::{Key, Kind};

use super::{
    Declared,
    object::{Content, DeclaredObject},
};

impl Declared {
    /// Returns the rows of each webhook client.
    pub fn contributed_rows(&self) -> Vec<(Scope, Vec<&ReadRow>)> {
        let rows = |scope: Scope| (scope.clone(), self.rows_of(&scope).collect());
        self.scopes().into_iter().map(rows).collect()
    }

    /// Returns the rows of all clients, or of the names with these texts, each with its owner. Those of one name are in the order of clients
    /// and rows.
    pub(crate) fn owned_rows(&self, texts: Option<&BTreeSet<String>>) -> Vec<OwnedRow<'_>> {
        let mut all = Vec::new();
        for scope in self.scopes() {
            // Only rows without a base path have several owners, which other rows of the client declare.
            let of_client: Vec<&ReadRow> = match scope {
                Scope::Root => self.rows_of(&scope).collect(),
                Scope::Owner(_) => vec![],
            };
            let (owners, lease_weight) = (RowOwners::of(&scope, &of_client), self.lease_weight(&scope));
            let tenant = Arc::new(tenant_of(&scope));
            let owned = |row| OwnedRow { owner: owners.of_row(row), tenant: Arc::clone(&tenant), lease_weight, row };
            let Some(texts) = texts else {
                all.extend(self.rows_of(&scope).map(owned));
                continue;
            };
            for text in texts {
                let rows = self.rows_at(&part_key(&scope, text)).filter(|row| *row.text == **text);
                all.extend(rows.map(owned));
            }
        }
        all
    }

    /// Adds the texts of the names whose rows at a key differ from an earlier state. Returns false if they cannot be found by their text.
    pub(crate) fn add_changed_texts(&self, before: &Self, key: &Key, texts: &mut BTreeSet<String>) -> bool {
        changed_texts([before, self].map(|of| of.part_at(key).map_or(&[][..], |part| &part.rows)), texts)
    }

    /// Returns the rows of one client.
    pub fn rows_of(&self, scope: &Scope) -> impl Iterator<Item = &ReadRow> {
        self.parts_of(scope).filter_map(DeclaredObject::part).flat_map(|part| &part.rows).map(|row| &**row)
    }

    /// Returns the parts of one client.
    pub(crate) fn keyed_parts(&self, scope: &Scope) -> impl Iterator<Item = (&Key, &ReadPart)> {
        self.parts_of(scope).filter_map(|object| Some((&object.object.key, object.part()?)))
    }

    /// Returns the rows of one part.
    pub fn rows_at<'a>(&'a self, key: &Key) -> impl Iterator<Item = &'a ReadRow> + use<'a> {
        self.part_at(key).into_iter().flat_map(|part| &part.rows).map(|row| &**row)
    }

    /// Returns the part at a key.
    pub(crate) fn part_at(&self, key: &Key) -> Option<&ReadPart> {
        self.objects.get(key)?.part()
    }

    /// Returns the bytes of one client's stored rows.
    pub fn bytes_of(&self, scope: &Scope) -> usize {
        self.parts_of(scope).map(|object| object.bytes).sum()
    }

    /// Returns the clients that contribute anything, in the order of their keys.
    pub fn scopes(&self) -> Vec<Scope> {
        let mut keys: Vec<&Key> = self.under(Kind::Contribution, &[]).map(|part| &part.object.key).collect();
        keys.dedup_by_key(|key| key.names().next());
        keys.into_iter().filter_map(scope_of).collect()
    }

    /// Returns true if the owner of the part at a key contributes anything.
    pub(super) fn has_owner_of(&self, key: &Key) -> bool {
        let owner = key.names().next().filter(|_| key.kind() == Kind::Contribution);
        owner.is_some_and(|owner| self.under(Kind::Contribution, &[owner]).next().is_some())
    }

    fn parts_of(&self, scope: &Scope) -> impl Iterator<Item = &DeclaredObject> {
        self.under(Kind::Contribution, &[scope_name(scope)])
    }

    /// Returns the committed time of a client's last call, in seconds since 1970.
    pub fn seen(&self, scope: &Scope) -> Option<u64> {
        match self.objects.get(&seen_key(scope))?.content {
            Ok(Content::Seen(seen)) => Some(seen),
            _ => None,
        }
    }

    /// Returns the lease weight of a client.
    pub fn lease_weight(&self, scope: &Scope) -> Permille {
        self.lease_weights.get(scope).copied().unwrap_or(Permille::WHOLE)
    }

    /// Returns the same objects with other lease weights.
    pub fn with_lease_weights(&self, weights: LeaseWeights) -> Self {
        Self { lease_weights: Arc::new(weights), ..self.clone() }
    }
}

impl ClientRows for Declared {
    fn scopes(&self) -> Vec<Scope> {
        Self::scopes(self)
    }

    fn of_client(&self, scope: &Scope) -> Vec<&ReadRow> {
        self.rows_of(scope).collect()
    }

    fn at(&self, key: &Key) -> Vec<&ReadRow> {
        self.rows_at(key).collect()
    }

    fn withdrawn_by(&self, scope: &Scope) -> Vec<&Withdrawn> {
        self.parts_of(scope).filter_map(DeclaredObject::part).flat_map(|part| &part.withdrawn).collect()
    }
}
