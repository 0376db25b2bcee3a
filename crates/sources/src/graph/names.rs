//! The exposures of each name.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Exposure;

/// Names that an object exposes in the same way.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    pub(super) exposure: Arc<Exposure>,
    /// The names, sorted.
    pub(super) names: Box<[Arc<str>]>,
}

/// The exposures of each name, in order of creation and key of their objects.
#[derive(Debug, Default)]
pub(super) struct NameIndex(BTreeMap<Arc<str>, Vec<Arc<Exposure>>>);

impl NameIndex {
    /// Returns the exposures of a name.
    pub(super) fn exposures(&self, name: &str) -> &[Arc<Exposure>] {
        self.0.get(name).map_or(&[], |exposures| &**exposures)
    }

    /// Returns all names with their exposures.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Vec<Arc<Exposure>>)> {
        self.0.iter()
    }

    /// Replaces the groups of one object. Adds the names whose exposures differ to `changed`.
    pub(super) fn replace(&mut self, before: &[Group], after: &[Group], changed: &mut BTreeSet<Arc<str>>) {
        let (mut before, mut after) = (by_name(before), by_name(after));
        let names: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
        for name in names {
            let [before, after] = [&mut before, &mut after].map(|groups| groups.remove(name).unwrap_or_default());
            if before != after {
                changed.insert(Arc::clone(name));
            }
            let list = self.0.entry(Arc::clone(name)).or_default();
            // The exposures of one object follow one another.
            if let Some(first) = before.first() {
                let start = position(list, first);
                list.drain(start..start + before.len());
            }
            if let Some(first) = after.first() {
                let start = position(list, first);
                list.reserve_exact(after.len());
                list.splice(start..start, after.into_iter().cloned());
            } else if list.is_empty() {
                self.0.remove(name);
            }
        }
    }
}

/// Returns the exposures of each name in the order of the groups.
fn by_name(groups: &[Group]) -> BTreeMap<&Arc<str>, Vec<&Arc<Exposure>>> {
    let mut names = BTreeMap::<_, Vec<_>>::new();
    for group in groups {
        for name in &group.names {
            names.entry(name).or_default().push(&group.exposure);
        }
    }
    names
}

/// Returns the position of the first exposure of an object.
fn position(list: &[Arc<Exposure>], of: &Exposure) -> usize {
    list.partition_point(|exposure| (exposure.created, &exposure.object) < (of.created, &of.object))
}
