//! Differences between declared objects and changes of them, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kinds::display_name;
use fairway_api_types::objects_wire::Difference;
use fairway_control::declared::{Declared, section};
use fairway_store::objects::{Change, Key};

/// Returns the first [`DIFFERENCES_MAX`] fields that the changes would change.
pub(super) fn differences(declared: &Declared, changes: &[Change]) -> Vec<Difference> {
    let mut found = Vec::new();
    for Change { key, value, .. } in changes {
        let before = declared.get(key).map(|object| redacted(key, &object.value)).unwrap_or_default();
        let after = value.as_ref().map(|value| redacted(key, value)).unwrap_or_default();
        let object = display_name(key);
        compare("", &before, &after, &mut |pointer, before, after| {
            let (object, pointer) = (object.clone(), pointer.to_owned());
            found.push(Difference { object, pointer, before: before.clone(), after: after.clone() });
        });
        if found.len() >= DIFFERENCES_MAX {
            break;
        }
    }
    found.truncate(DIFFERENCES_MAX);
    found
}

/// Returns an object without its secrets. Only intents have some.
fn redacted(key: &Key, value: &[u8]) -> Value {
    let json = match section(key.kind()) {
        Some(_) => serde_json::from_slice(value),
        None => serde_json::from_slice(&fairway_intents::public_value(key.kind(), value).unwrap_or_default()),
    };
    json.unwrap_or_default()
}

/// Calls `report` with each field that differs. Objects are compared field by field, lists of the same length element by element.
fn compare(pointer: &str, before: &Value, after: &Value, report: &mut impl FnMut(&str, &Value, &Value)) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let fields: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for field in fields {
                let at = format!("{pointer}/{}", field.replace('~', "~0").replace('/', "~1"));
                let value = |map: &serde_json::Map<String, Value>| map.get(field).cloned().unwrap_or_default();
                compare(&at, &value(old), &value(new), report);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{pointer}/{at}"), old, new, report);
            }
        }
        _ if before == after => {}
        _ => report(pointer, before, after),
    }
}

/// Maximum number of differences in one report.
const DIFFERENCES_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differing_fields_are_reported_with_their_pointers() {
        let before =
            json!({"ttl": "30s", "a/b": 1, "members": [{"cluster": "a", "weight": 1}, {"cluster": "b"}], "gone": true});
        let after =
            json!({"ttl": "30s", "a/b": 2, "members": [{"cluster": "a", "weight": 2}, {"cluster": "b"}], "new": [1]});
        let mut found = Vec::new();
        compare("", &before, &after, &mut |at, old, new| found.push(format!("{at} {old} {new}")));
        assert_eq!(found, ["/a~1b 1 2", "/gone true null", "/members/0/weight 1 2", "/new null [1]"]);
        found.clear();
        compare("", &json!([1, 2]), &json!([1]), &mut |at, old, new| found.push(format!("{at} {old} {new}")));
        assert_eq!(found, [" [1,2] [1]"], "lists of different lengths are reported whole");
    }
}
