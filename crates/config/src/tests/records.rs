//! Declared record sets.

use fairway_model::Rtype;

use super::*;

fn config(records: &str) -> String {
    format!("version: 1\nzones: [{{name: a.example, ns: [ns.example.net]}}]\nrecords:\n{records}")
}

#[test]
fn record_set_has_type_ttl_and_sorted_data() {
    let text = "- {name: a.example, sets: [{type: txt, data: ['\"two words\"', one]}, {type: TYPE65280, ttl: 1h, data: ['\\# 1 ff']}]}\n";
    let sets = loaded(&config(text)).desired.records;
    let shown: Vec<_> = sets.values().map(|set| (set.rtype, set.ttl.secs(), set.rdatas.len())).collect();
    assert_eq!(shown, [(Rtype::TXT, 300, 2), (Rtype(65280), 3_600, 1)]);
    let txt = sets.get(&("a.example".parse().unwrap(), Rtype::TXT)).unwrap();
    assert_eq!(*txt.rdatas[0], *b"\x03one", "sorted");
}

#[test]
fn invalid_record_set_is_rejected() {
    let table = [
        ("{name: a.example, sets: [{type: A, data: [nowhere]}]}", "records[0].sets[0].data[0]: A data:"),
        (
            "{name: a.example, sets: [{type: SOA, data: [x]}]}",
            "records[0].sets[0].type: SOA records cannot be declared",
        ),
        ("{name: a.example, sets: [{type: WAT, data: [x]}]}", "\"WAT\" is not a record type"),
        ("{name: a.example, sets: [{type: TXT, data: []}]}", "the list is empty"),
        ("{name: b.invalid, sets: [{type: TXT, data: [x]}]}", "b.invalid. TXT is in no declared zone"),
        (
            "{name: a.example, sets: [{type: TXT, data: [x]}, {type: TXT, data: [y]}]}",
            "record set a.example. TXT is already declared in f.yaml:4",
        ),
    ];
    for (records, wanted) in table {
        let text = config(&format!("- {records}\n"));
        let shown = errors_of(&text);
        assert!(shown.iter().any(|error| error.contains(wanted)), "{records}: {shown:?}");
    }
}
