//! Changes of a client's rows, as changes of the objects that hold them.

use std::collections::BTreeMap;

use fairway_contributions::{ReadPart, RowChange, RowChanges, Withdrawn, part_key};
use fairway_providers::webhook_server::{Scope, WebhookError};
use fairway_store::objects::{Change, Expect, Key};

use crate::declared::Declared;

/// Returns the changes of objects that make these changes.
pub(crate) fn of_parts(
    all: &RowChanges,
    declared: &Declared,
    scope: &Scope,
    now: u64,
) -> Result<Vec<Change>, WebhookError> {
    let mut parts: BTreeMap<Key, (Vec<_>, Vec<&Withdrawn>)> = BTreeMap::new();
    for key in &all.outdated {
        parts.entry(key.clone()).or_default();
    }
    for row in &all.rows {
        parts.entry(part_key(scope, &row.0.0)).or_default().0.push(row);
    }
    for withdrawn in &all.withdrawn {
        parts.entry(part_key(scope, &withdrawn.name)).or_default().1.push(withdrawn);
    }
    let mut changes = Vec::with_capacity(parts.len());
    for (key, (rows, withdrawn)) in parts {
        let before = declared.part_at(&key).map(ReadPart::part).unwrap_or_default();
        let after = before.changed(&rows, &withdrawn, now);
        if after == before {
            continue;
        }
        let expect = declared.get(&key).map_or(Expect::Absent, |object| Expect::Revision(object.revision));
        changes.push(Change { key, expect, value: after.to_bytes() });
    }
    let new = changes.iter().flat_map(|change| &change.value).map(Vec::len).sum::<usize>();
    let grown = declared.bytes_of(scope) + new;
    // What only removes rows must not fail.
    if grown > BYTES_MAX && all.rows.values().any(|change| matches!(change, RowChange::Put(_))) {
        let what = format!("{scope} would have {grown} bytes of endpoints; the limit is {BYTES_MAX}");
        return Err(WebhookError::Large(what));
    }
    Ok(changes)
}

/// Maximum bytes of one client's stored endpoints. Those of a change count in addition to those that it replaces. The limit is twice the
/// largest response that the client reads, 32 MiB.
const BYTES_MAX: usize = 64 << 20;
