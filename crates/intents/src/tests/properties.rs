//! Property tests of bodies: every name of a field, in each of its places and any spelling, has the same meaning.

use fairway_model::intent::Intent;
use proptest::prelude::*;

use super::bodies::CANONICAL;
use crate::{
    body::{read, table, to_stored},
    fields::{Field, fold},
    json_wire::Json,
};
use fairway_store::objects::Kind;

/// Returns every key of a field: place and name, folded.
fn keys_of(field: &Field) -> Vec<String> {
    let (home, name) = field.path.rsplit_once('.').unwrap_or(("", field.path));
    let mut keys = vec![field.path.to_owned()];
    let homes = std::iter::once(home).chain(field.homes.iter().copied());
    keys.extend(homes.flat_map(|home| field.names.iter().map(move |name| format!("{home}.{name}"))));
    keys.iter().map(|key| key.trim_start_matches('.').to_owned()).chain([format!("{home}.{name}")]).collect()
}

/// Returns a key in another case or with separators.
fn respelled(key: &str, spelling: u8) -> String {
    match spelling % 4 {
        0 => key.to_owned(),
        1 => key.to_ascii_uppercase(),
        2 => key.chars().enumerate().flat_map(|(at, c)| (at == 3).then_some('-').into_iter().chain([c])).collect(),
        _ => key.chars().enumerate().flat_map(|(at, c)| (at == 2).then_some('_').into_iter().chain([c])).collect(),
    }
}

/// Inserts a value at a path of keys.
fn put(at: &mut Json, keys: &[String], value: Json) {
    let Json::Map(entries) = at else { panic!("a place is below a value") };
    let [key, rest @ ..] = keys else { return };
    if rest.is_empty() {
        entries.push((key.clone(), value));
        return;
    }
    let there = entries.iter().position(|(name, _)| fold(name) == fold(key));
    let there = there.unwrap_or_else(|| {
        entries.push((key.clone(), Json::Map(Vec::new())));
        entries.len() - 1
    });
    put(&mut entries[there].1, rest, value);
}

fn value_at<'a>(json: &'a Json, path: &str) -> Option<&'a Json> {
    path.split('.').try_fold(json, |json, key| json.get(key))
}

proptest! {
    #[test]
    fn all_names_of_a_field_have_the_same_meaning(picks in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 64)) {
        let expected = read(Kind::Inbound, CANONICAL.as_bytes(), None).unwrap();
        let kept = to_stored(&expected);
        let canonical = Json::read(&kept).unwrap();
        let mut body = Json::Map(Vec::new());
        let fields: Vec<&Field> = table(Kind::Inbound).unwrap().fields.iter().map(|(field, _)| field).collect();
        prop_assert!(fields.len() <= picks.len());
        for (field, (pick, spelling)) in fields.into_iter().zip(picks) {
            let Some(value) = value_at(&canonical, field.path) else { continue };
            let all: Vec<String> = keys_of(field);
            let keys: Vec<String> = all[pick.index(all.len())].split('.').map(|key| respelled(key, spelling)).collect();
            put(&mut body, &keys, value.clone());
        }
        let text = body.to_text();
        let parsed = read(Kind::Inbound, &text, None);
        prop_assert_eq!(parsed.as_ref(), Ok(&expected), "{}", String::from_utf8_lossy(&text));
    }

    #[test]
    fn stored_form_is_parsed_unchanged(
        (port, weight, headless, external) in (prop::option::of(1..=65_535u16), prop::option::of(0..=100u8), any::<bool>(), any::<bool>()),
        (description, cookie) in ("\\PC{0,40}", "[a-z]{1,8}"),
        (errors, ejection) in (prop::option::of(1..=10_000u32), prop::option::of(1..86_400_000u64)),
        policy in prop::sample::select(vec!["weighted", "failover", "sticky", "load", "tier"]),
        down in prop::sample::select(vec!["all", "EMPTY", "NONE", "last-good", "ALL_RECORDS"]),
        members in prop::collection::btree_map("[a-z]{1,6}", (0..=65_535u16, 1..=255u8), 0..5),
    ) {
        let members: Vec<_> = members.iter().map(|(cluster, (weight, tier))| serde_json::json!({"cluster": cluster, "weight": weight, "tier": tier})).collect();
        let body = serde_json::json!({
            "metadata": {"name": "n", "description": description},
            "spec": {
                "app": "a", "serviceName": "s", "port": port, "weight": weight, "headless": headless, "externalSupport": external,
                "sidecarProxy": true,
                "traffic": {"lbMode": "httpCookie", "httpCookie": cookie, "consecutiveErrors": errors, "baseEjectionTime": ejection.map(|ms| format!("{ms}ms"))},
                "gslb": {"policy": policy, "downResponse": {"type": down}, "members": members},
            },
        });
        let intent = read(Kind::Inbound, body.to_string().as_bytes(), None);
        let intent: Intent = match intent { Ok(intent) => intent, Err(refused) => return Err(TestCaseError::fail(refused.to_string())) };
        let kept = to_stored(&intent);
        let again = read(Kind::Inbound, &kept, None);
        prop_assert_eq!(again.as_ref(), Ok(&intent));
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), at in any::<prop::sample::Index>()) {
        let _ = read(Kind::Inbound, &bytes, None);
        let mut body = CANONICAL.as_bytes().to_vec();
        let at = at.index(body.len());
        body.splice(at..at, bytes);
        for kind in Kind::ALL {
            let _ = read(*kind, &body, None);
        }
    }
}
