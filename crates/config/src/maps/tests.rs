//! Maps from database files to locations.

use std::{fs, path::Path};

use fairway_model::ClientMap;

use super::{
    mmdb_wire,
    mmdb_writer::{Mmdb, Value},
    *,
};

fn networks() -> Vec<(&'static str, Value)> {
    vec![
        ("192.0.2.0/24", Value::city("DE", Some((50.11, 8.68)))),
        ("192.0.2.128/25", Value::city("FR", None)),
        ("255.255.255.0/24", Value::city("JP", None)),
        ("2001:db8::/32", Value::city("US", Some((39.0, -98.0)))),
        ("2001:db8:ff::/48", Value::city("CA", None)),
    ]
}

fn layer(database: &Mmdb) -> Result<MapLayer, String> {
    mmdb_wire::read(&database.octets(), "t.mmdb", 1_000).map_err(|mmdb_wire::Unusable(what)| what)
}

fn map(layer: MapLayer) -> ClientMap {
    ClientMap::new(MapName::new("m").unwrap(), [layer])
}

fn shown(map: &ClientMap, address: &str) -> String {
    let entry = map.entry(address.parse().unwrap());
    format!("{} {}", entry.block, entry.location)
}

#[test]
fn every_record_size_is_read_for_both_families() {
    for record_size in [24, 28, 32] {
        let map = map(layer(&Mmdb { record_size, ..Mmdb::new(&networks()) }).unwrap());
        let table = [
            ("192.0.2.1", "192.0.2.0/25 country DE, continent EU, 50.1100 N 8.6800 E"),
            ("192.0.2.200", "192.0.2.128/25 country FR, continent EU"),
            ("255.255.255.255", "255.255.255.0/24 country JP, continent AS"),
            ("2001:db8:fe::1", "2001:db8:fe::/48 country US, continent NA, 39.0000 N 98.0000 W"),
            ("2001:db8:ff::1", "2001:db8:ff::/48 country CA, continent NA"),
            ("198.51.100.1", "196.0.0.0/6 nowhere"),
        ];
        for (address, location) in table {
            assert_eq!(shown(&map, address), location, "{record_size}");
        }
        // IPv4-mapped addresses are converted before they are looked up.
        assert!(shown(&map, "::ffff:192.0.2.1").ends_with("nowhere"));
    }
}

#[test]
fn ipv4_database_has_no_ipv6_locations() {
    let networks = &networks()[..3];
    let map = map(layer(&Mmdb { ip_version: 4, ..Mmdb::new(networks) }).unwrap());
    assert_eq!(shown(&map, "192.0.2.200"), "192.0.2.128/25 country FR, continent EU");
    assert_eq!(shown(&map, "2001:db8::1"), "::/0 nowhere");
}

#[test]
fn record_gives_location_and_other_parts_are_ignored() {
    let code = |key, code| Value::Map(vec![(key, Value::text(code))]);
    let record = Value::Map(vec![
        ("city", Value::Map(vec![("names", code("en", "Los Angeles"))])),
        ("continent", code("code", "NA")),
        ("registered_country", code("iso_code", "US")),
        ("subdivisions", Value::List(vec![code("iso_code", "CA"), code("iso_code", "LA")])),
        ("autonomous_system_number", Value::Uint(64_496)),
    ]);
    let map = map(layer(&Mmdb::new(&[("192.0.2.0/24", record)])).unwrap());
    assert_eq!(shown(&map, "192.0.2.1"), "192.0.2.0/24 subdivision US-CA, country US, continent NA, AS 64496");
}

#[test]
fn file_without_location_is_rejected() {
    let octets = Mmdb::new(&networks()).octets();
    let why = |octets: &[u8]| mmdb_wire::read(octets, "t", 1_000).map(|_| ()).unwrap_err().0;
    assert!(why(b"").starts_with("is not an MMDB database, or is damaged: "));
    assert!(why(&octets[..octets.len() / 2]).starts_with("is not an MMDB database, or is damaged: "));
    let other =
        Mmdb { kind: "Test-Domain", ..Mmdb::new(&[("192.0.2.0/24", Value::Map(vec![("domain", Value::text("x"))]))]) };
    let error = "is a database of type \"Test-Domain\" without any location or AS number";
    assert_eq!(layer(&other).map(|_| ()).unwrap_err(), error);
    let wrong = Value::Map(vec![("country", Value::text("DE"))]);
    assert!(layer(&Mmdb::new(&[("192.0.2.0/24", wrong)])).unwrap_err().starts_with("is not an MMDB database"));
}

#[test]
fn damaged_byte_never_panics() {
    let octets = Mmdb { record_size: 28, ..Mmdb::new(&networks()) }.octets();
    for at in 0..octets.len() {
        for transition in [0x01, 0x80, 0xff] {
            let mut damaged = octets.clone();
            damaged[at] ^= transition;
            let _ = mmdb_wire::read(&damaged, "t", 1_000);
        }
        let _ = mmdb_wire::read(&octets[..at], "t", 1_000);
    }
}

#[test]
fn database_over_the_network_limit_is_rejected() {
    let database = Mmdb::new(&networks()).octets();
    let count = |most| mmdb_wire::read(&database, "t", most).map(|layer| layer.locations.len()).map_err(|why| why.0);
    // Half of 192.0.2.0/24 and sixteen parts of 2001:db8::/32 remain.
    assert_eq!(count(20), Ok(5));
    assert_eq!(count(19), Err("has more than 19 networks".to_owned()));
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn declared(&self, databases: &[&str]) -> DeclaredMap {
        let databases = databases.iter().map(|file| self.0.path().join(file)).collect();
        DeclaredMap { name: MapName::new("m").unwrap(), networks: Vec::new(), databases }
    }

    fn write(&self, file: &str, octets: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(file), octets).unwrap();
    }

    fn read(
        &self,
        databases: &[&str],
        before: Option<&MapCache>,
    ) -> (Result<Arc<ClientMap>, Vec<String>>, MapCache, Files) {
        let (mut cache, mut files) = (MapCache::default(), Files::default());
        let map = cache.map(self.declared(databases), before, &mut files).map_err(|errors| {
            let text = |error: &FileError| match error {
                FileError::Whole(number, why) => format!("{number} {}", why.what),
                FileError::Line(error) => error.to_string(),
            };
            errors.iter().map(text).collect()
        });
        (map, cache, files)
    }
}

#[test]
fn map_with_unchanged_files_is_not_read_again() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.write("a", Mmdb::new(&networks()).octets());
    folder.write("b", Mmdb::new(&networks()).octets());
    let (first, mut cache, _) = folder.read(&["a"], None);
    let first = first.unwrap();
    let again = |cache: &MapCache, databases: &[&str]| folder.read(databases, Some(cache)).0.unwrap();
    assert!(!Arc::ptr_eq(&first, &again(&cache, &["a"])), "a file written just now may change without showing it");
    Arc::get_mut(&mut cache.maps[0]).unwrap().is_settled = true;
    let (second, _, files) = folder.read(&["a"], Some(&cache));
    assert!(Arc::ptr_eq(&first, &second.unwrap()));
    assert_eq!(files.fingerprint.files().collect::<Vec<_>>(), [folder.0.path().join("a").as_path() as &Path]);
    assert!(!Arc::ptr_eq(&first, &again(&cache, &["b"])));
    folder.write("a", Mmdb::new(&networks()[..1]).octets());
    assert!(!Arc::ptr_eq(&first, &again(&cache, &["a"])));
}

#[test]
fn every_invalid_file_is_reported_and_watched() {
    let folder = Folder(tempfile::tempdir().unwrap());
    folder.write("damaged", "no database");
    folder.write("good", Mmdb::new(&networks()).octets());
    let (map, _, files) = folder.read(&["missing", "good", "damaged"], None);
    let errors = map.unwrap_err();
    assert_eq!(errors[0], "0 does not exist");
    assert!(errors[1].starts_with("2 is not an MMDB database, or is damaged: "), "{errors:?}");
    assert_eq!((errors.len(), files.fingerprint.files().count()), (2, 3));
}
