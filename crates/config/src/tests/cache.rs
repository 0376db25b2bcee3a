//! Cache of zones between loads.

use fairway_model::{SharedMap, SharedSet};

use super::*;

const ZONE: &str = "$TTL 1h\n@ SOA ns hostmaster 1 1d 2h 1000h 1m\n  NS ns\nns A 192.0.2.53\n$INCLUDE more\n";

/// A configuration with variable parts.
struct Parts<'a> {
    weight: u16,
    names: &'a str,
    file: &'a str,
    serial: u32,
    before_zones: &'a str,
}

impl Parts<'_> {
    const START: Self = Parts { weight: 1, names: "www.a.example", file: "a.zone", serial: 7, before_zones: "" };

    fn text(&self) -> String {
        let Self { weight, names, file, serial, before_zones } = self;
        let names: String = names.split(' ').map(|name| format!("{{name: {name}, pool: web}}, ")).collect();
        format!(
            "version: 1{before_zones}
zones: [{{name: a.example, file: {file}}}, {{name: b.example, ns: [ns.a.example], serial: {serial}}}]
clusters: [{{name: eu1, addresses: [192.0.2.1]}}]
monitors: [{{name: up, type: always}}]
pools: [{{name: web, policy: weighted, monitor: up, members: [{{cluster: eu1, weight: {weight}}}]}}]
names: [{names}]
"
        )
    }
}

/// Returns a loaded folder with files that are old enough.
fn read_before() -> (Folder, Loaded) {
    let folder = Folder::new(&[("f.yaml", &Parts::START.text()), ("a.zone", ZONE), ("b.zone", ZONE), ("more", "\n")]);
    let mut loaded = folder.load("f.yaml").unwrap();
    loaded.zone_cache.is_settled = true;
    (folder, loaded)
}

fn read_after(folder: &Folder, before: &Loaded, parts: &Parts<'_>) -> Loaded {
    folder.write("f.yaml", parts.text());
    folder.load_after("f.yaml", before)
}

#[test]
fn zones_are_not_read_again_after_change_of_a_pool() {
    let (folder, before) = read_before();
    let longer = "\n\n# Lines that move the rest.\nlog: {level: warn}";
    for parts in [
        Parts { weight: 7, ..Parts::START },
        Parts { names: "www.a.example more.a.example", ..Parts::START },
        Parts { before_zones: longer, ..Parts::START },
    ] {
        let after = read_after(&folder, &before, &parts);
        assert!(after.zones_unchanged && after.zones.is_empty());
        assert!(after.fingerprint.files().eq(before.fingerprint.files()), "cached files are watched as well");
        assert!(after.fingerprint.is_current());
        // The next load uses the cache again.
        let again = read_after(&folder, &Loaded { zone_cache: after.zone_cache, ..after }, &parts);
        assert!(again.zones_unchanged);
    }
}

#[test]
fn zone_is_read_again_if_it_may_have_changed() {
    for parts in [
        Parts { names: "other.a.example", ..Parts::START },
        Parts { file: "b.zone", ..Parts::START },
        Parts { serial: 8, ..Parts::START },
    ] {
        let (folder, before) = read_before();
        let after = read_after(&folder, &before, &parts);
        assert!(!after.zones_unchanged && after.zones.len() == 2);
    }
    for file in ["a.zone", "more"] {
        let (folder, before) = read_before();
        let text = fs::read_to_string(folder.path().join(file)).unwrap();
        folder.write(file, format!("{text}\n; changed\n"));
        assert!(!read_after(&folder, &before, &Parts::START).zones_unchanged, "{file}");
    }
    let (folder, mut before) = read_before();
    before.zone_cache.is_settled = false;
    assert!(!read_after(&folder, &before, &Parts::START).zones_unchanged);
}

#[test]
fn warnings_of_cached_zones_are_repeated_until_a_name_resolves_them() {
    let (folder, _) = read_before();
    folder.write("more", "mx MX 10 mail\n");
    let mut before = folder.load("f.yaml").unwrap();
    before.zone_cache.is_settled = true;
    assert_eq!(before.warnings.len(), 1, "{:?}", before.warnings);
    let after = read_after(&folder, &before, &Parts { weight: 3, ..Parts::START });
    assert!(after.zones_unchanged);
    assert_eq!(after.warnings, before.warnings);
    let fixed = read_after(&folder, &before, &Parts { names: "www.a.example mail.a.example", ..Parts::START });
    assert!(!fixed.zones_unchanged);
    assert_eq!(fixed.warnings, []);
}

#[test]
fn zone_is_checked_again_after_change_of_a_mode() {
    let (folder, _) = read_before();
    folder.write("more", "mx MX 10 www\n");
    let mut before = folder.load("f.yaml").unwrap();
    before.zone_cache.is_settled = true;
    assert_eq!(before.warnings, []);
    let text = Parts::START.text().replace("{name: web,", "{name: web, mode: cname,");
    folder.write("f.yaml", text.replace("{name: eu1,", "{name: eu1, dnsName: eu1.example.net,"));
    let mut after = folder.load_after("f.yaml", &before);
    let warnings: Vec<_> = after.warnings.iter().map(|warning| warning.fact.as_str()).collect();
    let expected = "MX points to www.a.example., whose pool answers with a CNAME (RFC 2181 section 10.3)";
    assert_eq!((after.zones_unchanged, warnings), (false, vec![expected]));
    after.zone_cache.is_settled = true;
    let again = folder.load_after("f.yaml", &after);
    assert_eq!((again.zones_unchanged, &again.warnings), (true, &after.warnings));
    assert!(!read_after(&folder, &after, &Parts::START).zones_unchanged);
}

#[test]
fn file_written_just_now_is_not_cached() {
    let folder = Folder::new(&[("f.yaml", &Parts::START.text()), ("a.zone", ZONE), ("more", "\n")]);
    assert!(!folder.load("f.yaml").unwrap().zone_cache.is_settled);
    let none = SharedMap::new();
    assert!(
        !PreviousLoad {
            zones: &Default::default(),
            maps: &Default::default(),
            names: &none,
            not_in_files: &SharedSet::new()
        }
        .has_same_zones(&[], &[], &none)
    );
}
