//! JSON has its own parser, which must give the same result as YAML.

use proptest::prelude::*;

use super::{good::EVERYTHING, *};
use crate::{join::join, yaml};

/// Returns a configuration as JSON.
fn as_json(text: &str) -> String {
    let files = ["f.yaml".into()];
    let tree = yaml::parse(text, 0, &files).unwrap().unwrap();
    join(vec![tree], &files, &mut Vec::new()).to_json().to_string()
}

/// Returns the same text with a comment, so that it is parsed as YAML.
fn read_as_yaml(json: &str) -> String {
    format!("{json}\n# this is YAML\n")
}

#[test]
fn json_and_yaml_are_equivalent() {
    let json = as_json(EVERYTHING);
    assert!(outcome(&json).is_ok());
    assert_eq!(outcome(&json), outcome(&read_as_yaml(&json)));
}

#[test]
fn errors_in_json_have_locations() {
    let invalid = [
        "{\"version\": 1,\n\"log\": {\"level\": null}}",
        "{\"version\": 1,\n\"user\": \"a\",\n\"user\": \"b\"}",
        "{\"version\": 1,\n\"udp\": {\"workers\": 0}}",
        "{\"version\": 1,\n\"pools\": [{\"name\": \"p\", \"policy\": \"weighted\", \"members\": [{\"cluster\": \"c\"}]}]}",
        "{\"version\": 1,\n\"zones\": [{\"name\": \"a.example\", \"ns\": [\"ns.a.example\"]}]}",
        "{\"version\": 1,\n\"monitors\": [{\"name\": \"m\", \"type\": \"http\", \"headers\": {\"a\": \"b\", \"a\": \"c\"}}]}",
    ];
    for json in invalid {
        let errors = outcome(json).unwrap_err();
        assert!(errors[0].starts_with("f.yaml:2:") || errors[0].starts_with("f.yaml:3:"), "{errors:?}");
        assert_eq!(Err(errors), outcome(&read_as_yaml(json)));
    }
}

proptest! {
    #[test]
    fn changed_json_has_the_same_result_as_yaml(changes in proptest::collection::vec((any::<prop::sample::Index>(), 0x20..0x7fu8), 1..4)) {
        let mut octets = as_json(EVERYTHING).into_bytes();
        for (at, octet) in changes {
            let at = at.index(octets.len());
            octets[at] = octet;
        }
        let json = String::from_utf8(octets).unwrap();
        // A rejected text is parsed as YAML in both cases.
        prop_assert_eq!(outcome(&json).ok(), outcome(&read_as_yaml(&json)).ok());
    }
}
