use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn read(text: &str) -> Result<Option<Node>, Vec<String>> {
    let files: Vec<Arc<str>> = vec!["f.yaml".into()];
    parse(text, 0, &files).map_err(|errors| errors.iter().map(Diagnostic::to_string).collect())
}

fn json(text: &str) -> Value {
    read(text).unwrap().unwrap().to_json()
}

fn error(text: &str) -> String {
    let errors = read(text).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap()
}

#[test]
fn scalars_follow_the_yaml_1_2_core_schema() {
    let read = json("[1, -2, 0x10, 0o17, 1.5, true, off, yes, null, ~, '7', 10.0.0.1, 30s, .nan, 1e3, !!str 8]");
    let expected =
        json!([1, -2, 16, 15, 1.5, true, "off", "yes", null, null, "7", "10.0.0.1", "30s", ".nan", 1000, "8"]);
    assert_eq!(read, expected);
}

#[test]
fn every_value_has_line_and_column() {
    let tree = read("version: 1\npools:\n  - name: a\n    ttl:\n  -   name: \"ü\"\n      members: [ {x: 1}, 2 ]\n")
        .unwrap()
        .unwrap();
    let at = |pointer: &str| {
        let position = tree.locate(pointer).position;
        (position.line, position.column)
    };
    assert_eq!(at("/version"), (1, 10));
    assert_eq!(at("/pools"), (3, 3));
    assert_eq!(at("/pools/0"), (3, 5));
    assert_eq!(at("/pools/0/name"), (3, 11));
    assert_eq!(at("/pools/0/ttl"), (4, 5));
    assert_eq!(at("/pools/1/name"), (5, 13));
    assert_eq!(at("/pools/1/members/0/x"), (6, 22));
    assert_eq!(at("/pools/1/members/1"), (6, 26));
}

#[test]
fn empty_text_has_no_document() {
    for text in ["", "\n\n", "# only a comment\n"] {
        assert!(read(text).unwrap().is_none(), "{text:?}");
    }
}

#[test]
fn aliases_copy_their_anchor() {
    assert_eq!(json("a: &x {b: 1}\nc: *x\n"), json!({"a": {"b": 1}, "c": {"b": 1}}));
}

#[test]
fn alias_expansion_over_the_limit_is_rejected() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }
    let error = error(&text);
    assert!(error.starts_with("f.yaml:5:"), "{error}");
    assert!(error.contains("aliases copy more than 100000 values; write the values out"), "{error}");
}

#[test]
fn recursive_alias_is_rejected() {
    assert_eq!(
        error("a: &a [*a]\n"),
        "f.yaml:1:8: an alias is inside the value that it refers to; write the value out"
    );
}

#[test]
fn repeated_keys_are_rejected_with_both_lines() {
    let errors = read("a: 1\nb: 2\na: 3\nb: 4\n").unwrap_err();
    assert_eq!(
        errors,
        [
            "f.yaml:3:1: key \"a\" is repeated; it is already in line 1; remove one of them",
            "f.yaml:4:1: key \"b\" is repeated; it is already in line 2; remove one of them",
        ]
    );
}

#[test]
fn invalid_yaml_is_rejected_with_location_and_hint() {
    let table = [
        ("a:\n\tb: 1\n", "f.yaml:2:2: the indentation contains a tab, which YAML forbids; indent with spaces"),
        (
            "a: b: c\n",
            "f.yaml:1:5: unexpected ':'; quote text that contains ': ', or fix the indentation of this line and the one before",
        ),
        (
            "a: *x\n",
            "f.yaml:1:4: an alias (*) refers to an anchor (&) that is not defined before it; write the value out",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "f.yaml:2:1: a second document begins here; write one document per file; a folder may have several files",
        ),
        ("? [a]\n: 1\n", "f.yaml:1:3: a key is a list, a map or an alias; write a plain word as key"),
        ("a: !secret x\n", "f.yaml:1:4: the tag \"!secret\" is not supported; remove it, or quote the text"),
    ];
    for (text, expected) in table {
        assert_eq!(error(text), expected, "{text:?}");
    }
    for text in ["a: [1, 2\n", "a: \"open\n", "a: 1\n b: 2\n", "{", "- a\nb: 1\n", " \u{7f}: ["] {
        let error = error(text);
        assert!(error.starts_with("f.yaml:"), "{text:?}: {error}");
    }
}

#[test]
fn nesting_over_the_limit_is_rejected() {
    assert!(read(&format!("{}{}", "[".repeat(32), "]".repeat(32))).is_ok());
    let block: String = (0..40).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
    assert!(error(&block).starts_with("f.yaml:34:34: lists and maps are nested more than 32 levels deep"));
    assert!(error(&"[".repeat(100_000)).contains("brackets are nested too deeply"));
}

#[test]
fn map_with_too_many_keys_is_rejected() {
    let keys = |count: usize| (0..count).map(|i| format!("k{i}:\n")).collect::<String>();
    assert!(read(&keys(10_000)).is_ok());
    assert_eq!(error(&keys(10_001)), "f.yaml:10001:1: a map has more than 10000 keys; use a list instead");
}

proptest! {
    #[test]
    fn any_text_gives_a_tree_or_an_error(text in "\\PC{0,200}|[-:{}\\[\\],&*!|>'\"%@`#?a-c0-9 \\n\\t]{0,200}") {
        if let Err(errors) = read(&text) {
            prop_assert!(!errors.is_empty());
        }
    }
}
