//! What is other in objects than before, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::write::shown_key;
use fairway_api_types::objects_wire::Difference;
use fairway_control::declared::{Declared, section};
use fairway_store::objects::{Change, Key};

/// What changes would make other in what is declared; the first [`DIFFERENCES_MAX`] fields of it.
pub(super) fn differences(declared: &Declared, changes: &[Change]) -> Vec<Difference> {
    let mut found = Vec::new();
    for Change { key, value, .. } in changes {
        let before = declared.get(key).map(|object| said(key, &object.value)).unwrap_or_default();
        let after = value.as_ref().map(|value| said(key, value)).unwrap_or_default();
        let mut told = |pointer: &str, before: &Value, after: &Value| {
            let (before, after) = (before.clone(), after.clone());
            found.push(Difference { object: shown_key(key), pointer: pointer.to_owned(), before, after });
        };
        compare("", &before, &after, &mut told);
        if found.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

/// What an object says to whoever asks: secrets are left out.
fn said(key: &Key, value: &[u8]) -> Value {
    match section(key.kind()) {
        Some(_) => serde_json::from_slice(value).unwrap_or_default(),
        None => {
            serde_json::from_slice(&fairway_intents::shown(key.kind(), value).unwrap_or_default()).unwrap_or_default()
        }
    }
}

/// Tells of each field that differs; of what is a map on both sides, of its fields.
fn compare(pointer: &str, before: &Value, after: &Value, told: &mut impl FnMut(&str, &Value, &Value)) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for field in fields {
                let at = format!("{pointer}/{}", field.replace('~', "~0").replace('/', "~1"));
                let of = |map: &serde_json::Map<String, Value>| map.get(field).cloned().unwrap_or_default();
                compare(&at, &of(old), &of(new), told);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{pointer}/{at}"), old, new, told);
            }
        }
        _ if before == after => {}
        _ => told(pointer, before, after),
    }
}

/// Most fields that are told.
const DIFFERENCES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_that_differ_are_told_by_their_pointers() {
        let before =
            json!({"ttl": "30s", "a/b": 1, "members": [{"cluster": "a", "weight": 1}, {"cluster": "b"}], "gone": true});
        let after =
            json!({"ttl": "30s", "a/b": 2, "members": [{"cluster": "a", "weight": 2}, {"cluster": "b"}], "new": [1]});
        let mut told = Vec::new();
        compare("", &before, &after, &mut |at, old, new| told.push(format!("{at} {old} {new}")));
        assert_eq!(told, ["/a~1b 1 2", "/gone true null", "/members/0/weight 1 2", "/new null [1]"]);
        told.clear();
        compare("", &json!([1, 2]), &json!([1]), &mut |at, old, new| told.push(format!("{at} {old} {new}")));
        assert_eq!(told, [" [1,2] [1]"], "lists of other lengths are told whole");
    }
}
