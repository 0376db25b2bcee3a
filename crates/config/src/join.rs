//! Merges several files into one tree, and replaces aliases of keys.
//!
//! Lists of a folder's files are joined in the order of the files. Everything else may be in one file only.

use std::sync::Arc;

use fairway_model::Diagnostic;

use super::tree::{Data, Entry, Node, Position};

/// Sections that are lists, which are joined.
const LISTS: &[&str] = &[
    "zones",
    "clusters",
    "monitors",
    "load",
    "maps",
    "latencies",
    "pools",
    "names",
    "records",
    "intents",
    "overrides",
    "overrideRules",
];

/// Aliases that are accepted on input: path of keys (through lists), alias, canonical key.
const ALIASES: &[(&[&str], &str, &str)] = &[
    (&[], "edges", "clusters"),
    (&["log"], "filter", "level"),
    (&["load"], "interval", "period"),
    (&["monitors"], "interval", "period"),
    (&["pools", "members"], "edge", "cluster"),
    (&["publish", "providers"], "coredns", "etcd"),
    (&["publish", "providers"], "pdns", "powerdns"),
];

/// Down answers by the names that other products use.
const DOWN_ALIASES: &[(&str, &str)] = &[("ALL_RECORDS", "all"), ("EMPTY", "empty"), ("NONE", "refuse")];

/// Joins the trees of several files. Errors are recorded, and invalid parts are left out.
pub(super) fn join(trees: Vec<Node>, files: &[Arc<str>], diagnostics: &mut Vec<Diagnostic>) -> Node {
    let position = Position { file: trees.first().map_or(0, |tree| tree.position.file), line: 1, column: 1 };
    let mut joined = Node { position, index: 0, data: Data::Map(Vec::new()) };
    for mut tree in trees {
        rename(&mut tree, files, diagnostics);
        let Data::Map(entries) = tree.data else {
            // An empty document is an empty file.
            if !matches!(tree.data, Data::Null) {
                let what = "the file is not a map of sections";
                diagnostics.push(Diagnostic::error(
                    tree.position.location(files),
                    what,
                    "write it like \"version: 1\", with one key per section",
                ));
            }
            continue;
        };
        let Data::Map(into) = &mut joined.data else { continue };
        for entry in entries {
            add(into, entry, files, diagnostics);
        }
    }
    joined
}

fn add(into: &mut Vec<Entry>, entry: Entry, files: &[Arc<str>], diagnostics: &mut Vec<Diagnostic>) {
    // `pools:` with all its elements commented out is an empty section.
    if matches!(entry.value.data, Data::Null) {
        return;
    }
    let Some(known) = into.iter_mut().find(|known| known.key == entry.key) else {
        into.push(entry);
        return;
    };
    let list = LISTS.contains(&known.key.as_str());
    match (&mut known.value.data, entry.value.data) {
        (Data::List(elements), Data::List(more)) if list => elements.extend(more),
        (Data::Integer(a), Data::Integer(b)) if entry.key == "version" && *a == b => {}
        (_, data) => {
            let what = format!("{} is already in {}", entry.key, known.position.location(files));
            let hint =
                if list && matches!(data, Data::List(_)) { "make both lists" } else { "write it in one file only" };
            diagnostics.push(Diagnostic::error(entry.position.location(files), what, hint));
        }
    }
}

/// Replaces aliases by the canonical keys and words.
fn rename(tree: &mut Node, files: &[Arc<str>], diagnostics: &mut Vec<Diagnostic>) {
    for (path, alias, word) in ALIASES {
        each(tree, path, &mut |map| rename_key(map, alias, word, files, diagnostics));
    }
    each(tree, &["pools"], &mut |pool| {
        let Some(down) = pool.iter_mut().find(|entry| entry.key == "down") else { return };
        match &mut down.value.data {
            Data::Text(text) => {
                if let Some((_, word)) = DOWN_ALIASES.iter().find(|(alias, _)| alias == text) {
                    (*word).clone_into(text);
                }
            }
            Data::Map(map) => rename_key(map, "FALLBACK_IP", "fallback", files, diagnostics),
            _ => {}
        }
    });
}

/// Calls `then` for every map at the path of keys, including those in lists on the way.
fn each(node: &mut Node, path: &[&str], then: &mut dyn FnMut(&mut Vec<Entry>)) {
    match (&mut node.data, path.split_first()) {
        (Data::List(elements), _) => elements.iter_mut().for_each(|element| each(element, path, then)),
        (Data::Map(entries), None) => then(entries),
        (Data::Map(entries), Some((key, rest))) => {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
                each(&mut entry.value, rest, then);
            }
        }
        _ => {}
    }
}

fn rename_key(map: &mut [Entry], alias: &str, word: &str, files: &[Arc<str>], diagnostics: &mut Vec<Diagnostic>) {
    let both = map.iter().any(|entry| entry.key == word);
    let Some(entry) = map.iter_mut().find(|entry| entry.key == alias) else { return };
    if both {
        let what = format!("{alias} is an alias of {word}, which is also given");
        diagnostics.push(Diagnostic::error(entry.position.location(files), what, format!("keep {word}")));
    }
    word.clone_into(&mut entry.key);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::yaml, *};

    fn joined(texts: &[&str]) -> (serde_json::Value, Vec<String>) {
        let files: Vec<Arc<str>> = (0..texts.len()).map(|i| format!("{i}.yaml").into()).collect();
        let trees = texts
            .iter()
            .enumerate()
            .filter_map(|(i, text)| yaml::parse(text, u16::try_from(i).unwrap(), &files).unwrap());
        let mut diagnostics = Vec::new();
        let tree = join(trees.collect(), &files, &mut diagnostics);
        (tree.to_json(), diagnostics.iter().map(Diagnostic::to_string).collect())
    }

    #[test]
    fn lists_are_joined_and_same_version_may_repeat() {
        let (tree, diagnostics) =
            joined(&["version: 1\nnames: [a]\n", "version: 1\nnames: [b]\nuser: x\n", "# nothing\n"]);
        assert_eq!((tree, diagnostics), (json!({"version": 1, "names": ["a", "b"], "user": "x"}), vec![]));
    }

    #[test]
    fn section_in_two_files_is_rejected_with_both_locations() {
        let (_, diagnostics) = joined(&["version: 1\nuser: a\n", "\nuser: b\nversion: 2\nzones: 1\n", "zones: []\n"]);
        let expected = [
            "1.yaml:2:1: user is already in 0.yaml:2:1; write it in one file only",
            "1.yaml:3:1: version is already in 0.yaml:1:1; write it in one file only",
            "2.yaml:1:1: zones is already in 1.yaml:4:1; make both lists",
        ];
        assert_eq!(diagnostics, expected);
    }

    #[test]
    fn aliases_are_replaced_by_canonical_keys() {
        let (tree, diagnostics) = joined(&["
edges: [{name: e}]
monitors: [{interval: 1s}]
pools:
  - {down: ALL_RECORDS, members: [{edge: e}]}
  - {down: NONE}
  - {down: EMPTY}
  - {down: {FALLBACK_IP: [192.0.2.1]}}
"]);
        let expected = json!({
            "clusters": [{"name": "e"}],
            "monitors": [{"period": "1s"}],
            "pools": [{"down": "all", "members": [{"cluster": "e"}]}, {"down": "refuse"}, {"down": "empty"},
                {"down": {"fallback": ["192.0.2.1"]}}],
        });
        assert_eq!((tree, diagnostics), (expected, vec![]));
    }

    #[test]
    fn alias_and_canonical_key_together_are_rejected() {
        let (_, diagnostics) = joined(&["monitors: [{period: 1s, interval: 2s}]\n"]);
        assert_eq!(diagnostics, ["0.yaml:1:25: interval is an alias of period, which is also given; keep period"]);
    }

    #[test]
    fn empty_section_counts_as_absent_and_list_file_is_rejected() {
        assert_eq!(joined(&["pools:\nnames:\n"]), (json!({}), vec![]));
        let (_, diagnostics) = joined(&["- a\n"]);
        assert_eq!(
            diagnostics,
            ["0.yaml:1:1: the file is not a map of sections; write it like \"version: 1\", with one key per section"]
        );
    }
}
