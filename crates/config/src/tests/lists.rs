//! Long lists are read another way than the rest of YAML, and say the same.

use std::sync::Arc;

use proptest::prelude::*;

use super::{good::EVERYTHING, *};
use crate::{lists, tree::Located};

/// A file of long lists, in each style that is known.
const PLAIN: &str = "# Fleet
version: 1
zones: [{ name: a.example, ns: [ns.b.example] }]
clusters: # all of them
- { name: eu1, addresses: [192.0.2.1, 2001:db8::1], location: { latitude: -1.5, longitude: 2, region: \"Köln\" } }
- name: us1 # one in block style
  addresses:
  - 192.0.2.2
  services: ['*', shop]
  capacity: 9

monitors: [{ name: m, type: tcp, port: 80 }]
pools:
  - { name: p0, policy: weighted, ttl: 60s, monitor: m, members: [{ cluster: eu1, weight: 70 }, { cluster: us1 }] }
  # a comment
  -   name: p1
      policy: failover
      down:
        fallback: [192.0.2.9]
      minHealthy: 50%
      panicThreshold: 0.25
      clientPrefix: { v4: 20 }
      members:
        - cluster: eu1
          probe: gw.example:80
        -
          cluster: us1
          tier: 2
log: { level: info }
names:
- { name: shop.a.example, pool: p0 }
- { name: pay.a.example, pool: p1, ttl: 5s }
";

/// The same text, with an end of the document, which is not known where long lists are.
fn read_whole(text: &str) -> String {
    format!("{text}\n...\n")
}

fn outcome(text: &str) -> Result<String, Vec<String>> {
    let folder = Folder::new(&[("f.yaml", text)]);
    let Loaded { settings, desired, overrides, warnings, .. } = folder.load("f.yaml")?;
    let shown = format!("{settings:?} {desired:?} {overrides:?} {warnings:?}");
    Ok(shown.replace(&folder.path().display().to_string(), ""))
}

fn is_known(text: &str) -> bool {
    let (texts, names) = ([Some(text.to_owned())], ["f.yaml".into()]);
    lists::read(&texts, &names).is_some()
}

#[test]
fn lists_in_each_style_say_what_they_say_in_yaml() {
    for text in [PLAIN, EVERYTHING] {
        assert!(outcome(text).is_ok());
        assert_eq!(outcome(text), outcome(&read_whole(text)));
    }
    assert!(is_known(PLAIN));
    assert!(!is_known(&read_whole(PLAIN)));
}

#[test]
fn lists_of_several_files_are_joined_in_their_order() {
    let files = [
        (
            "c/0.yaml",
            "version: 1\nnames:\n- { name: b.a.example, pool: p }\nzones: [{ name: a.example, ns: [n.b.example] }]\n",
        ),
        ("c/1.yaml", "pools:\n- { name: p, policy: failover, members: [{ cluster: c }] }\n"),
        ("c/2.yaml", "clusters:\n- { name: c, addresses: [192.0.2.1] }\nnames:\n- { name: a.a.example, pool: p }\n"),
    ];
    let loaded = Folder::new(&files).load("c").unwrap();
    assert_eq!(
        loaded.desired.names.keys().map(ToString::to_string).collect::<Vec<_>>(),
        ["a.a.example.", "b.a.example."]
    );
    let texts = files.map(|(_, text)| Some(text.to_owned()));
    let names: [Arc<str>; 3] = files.map(|(name, _)| name.into());
    let (config, tree) = lists::read(&texts, &names).unwrap();
    assert_eq!(
        config.names.iter().map(|name| name.name.0.to_string()).collect::<Vec<_>>(),
        ["b.a.example.", "a.a.example."]
    );
    let place = |pointer: &str| {
        let Located { spot, path } = tree.locate(pointer);
        (names[usize::from(spot.file)].to_string(), spot.line, path)
    };
    assert_eq!(place("/zones/0"), ("c/0.yaml".to_owned(), 4, "zones[0]".to_owned()));
    assert_eq!(place("/names/1/pool"), ("c/2.yaml".to_owned(), 4, "names[0].pool".to_owned()));
}

#[test]
fn faults_beside_and_in_lists_keep_their_places() {
    for (from, to) in [
        ("policy: failover", "policy: failovr"),
        ("cluster: us1 }]", "cluster: us2 }]"),
        ("port: 80", "port: 0"),
        ("level: info", "level: loud"),
        ("pool: p1", "pool: p2"),
    ] {
        let (before, _) = PLAIN.split_once(from).unwrap();
        let place = format!("f.yaml:{}:", before.lines().count());
        let faults = outcome(&PLAIN.replacen(from, to, 1)).unwrap_err();
        assert!(faults.iter().any(|fault| fault.starts_with(&place)), "{to}: {faults:?}");
    }
}

#[test]
fn what_is_not_plain_is_left_to_the_reader_of_yaml() {
    let list = "pools:\n- { name: p, policy: failover, members: [{ cluster: c }] }\n";
    assert!(is_known(&format!("version: 1\n{list}")));
    for text in [
        // A list that is none, since something goes on around it.
        &format!("version: 1\nuser: \"a\n{list}b\"\n"),
        &format!("version: 1\nuser: 'a\n{list}b'\n"),
        &format!("{{version: 1}}\n{list}"),
        &format!("version: 1\n...\n{list}"),
        &format!("version: 1\n---\n{list}"),
        &format!("%YAML 1.2\n---\nversion: 1\n{list}"),
        &format!("{{version: 1,\n{list}}}"),
        // Said twice.
        &format!("version: 1\n{list}{list}"),
        &format!("version: 1\n{list}version: 1\n"),
        &format!("version: 1\npools: []\n{list}zones: []\nzones: []\n"),
        &format!("version: 1\nedges: []\n{list}clusters: []\n"),
        // Anchors, tags, texts of several lines, columns that fit nothing, tabs, other ends of lines.
        &list.replace("{ name", "&a { name"),
        &list.replace("name: p", "name: !!str p"),
        &list.replace("name: p", "name: *p"),
        &list.replace("failover", "fail\n  over"),
        "pools:\n- name: p\n  policy: failover\n   members: [{ cluster: c }]\n",
        "pools:\n  - name: p\n    policy: failover\n    members: [{ cluster: c }]\n log: {}\n",
        "pools:\n- name: p\n  policy: fail\n   over\n  members: [{ cluster: c }]\n",
        "pools:\n- name: |\n    p\n  policy: failover\n  members: [{ cluster: c }]\n",
        "pools:\n- name: p\n  name: p\n  policy: failover\n  members: [{ cluster: c }]\n",
        &list.replace(": p", ":\tp"),
        &list.replace('\n', "\r\n"),
        &list.replace("name: p", "name: \"\\x70\""),
        &list.replace("name: p", "name: 'p''q'"),
        &list.replace("ttl", "edge"),
        &list.replace("cluster: c", "edge: c"),
        &list.replace("failover", "null"),
        &list.replace("members: [{ cluster: c }]", "down: [[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    ] {
        assert!(!is_known(text) || text == list, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn a_changed_text_gets_one_verdict(
        everything in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), "[ -~\n]|[:#'\"\\[\\]{},&*!|> \n-]{1,3}|\n(pools|names):\n- "), 1..4)
    ) {
        let mut text = (if everything { EVERYTHING } else { PLAIN }).to_owned();
        for (at, new) in changes {
            let at = at.index(text.len());
            if text.is_char_boundary(at) && text.is_char_boundary(at + 1) {
                text.replace_range(at..=at, &new);
            }
        }
        // Where it is refused, both are read as a whole.
        prop_assert_eq!(outcome(&text).ok(), outcome(&read_whole(&text)).ok(), "{}", text);
    }
}
