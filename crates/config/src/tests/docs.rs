//! Tests of the manual: its examples load, and its tables match the schema. `FAIRWAY_UPDATE_DOCS=1` updates it.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{
    sources::{CERTIFICATE, KEY},
    *,
};
use crate::{
    environment,
    maps::mmdb_writer::{Mmdb, Value as Data},
    schema,
};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<_> = fs::read_dir(docs().join("config")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    assert!(!pages.is_empty(), "the manual is gone");
    pages
}

/// Compares a file with its expected text, or updates it.
fn compare(path: &Path, expected: &str) {
    let found = fs::read_to_string(path).unwrap_or_default();
    if found == expected {
        return;
    }
    if std::env::var_os("FAIRWAY_UPDATE_DOCS").is_some() {
        fs::write(path, expected).unwrap();
        return;
    }
    panic!("{} does not match the schema; update it with FAIRWAY_UPDATE_DOCS=1", path.display());
}

fn load_with_key(path: &Path) -> Loaded {
    let env = [("GATEWAY_KEY", KEY), ("GATEWAY_CERT", CERTIFICATE), ("OTLP_AUTHORIZATION", "Basic YTpi")];
    let outcome = attempt(&Source::Path(path.to_owned()), &|name| variable(&env, name), None).outcome;
    outcome.unwrap_or_else(|errors| panic!("{}: {errors:#?}", path.display()))
}

#[test]
fn every_example_passes_the_check() {
    let mut count = 0;
    for entry in fs::read_dir(docs().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") || path.ends_with("folder") {
            let env = |name: &str| variable(&[("GATEWAY_KEY", KEY)], name);
            assert_eq!(check_at(&Source::Path(path.clone()), &env, std::time::UNIX_EPOCH), [], "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 0, "the examples are gone");
}

#[test]
fn every_configuration_in_the_manual_loads() {
    let folder = Folder::new(&[]);
    for name in ["gslb.example.zone", "example.com.zone"] {
        folder.write(name, fs::read(docs().join("examples/example.com.zone")).unwrap());
    }
    folder.write("tls/ca.pem", fs::read(docs().join("examples/tls/ca.pem")).unwrap());
    write_places(&folder);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for (index, block) in text.split("```yaml\n").skip(1).enumerate() {
            let name = format!("{}-{index}.yaml", page.file_stem().unwrap().to_str().unwrap());
            folder.write(&name, block.split("```").next().unwrap());
            load_with_key(&folder.path().join(name));
        }
    }
}

/// Writes the map and latency files that the pages refer to.
fn write_places(folder: &Folder) {
    let city = Mmdb::new(&[("203.0.113.0/24", Data::city("DE", Some((50.1, 8.7))))]);
    folder.write("GeoLite2-City.mmdb", city.octets());
    folder.write("GeoLite2-ASN.mmdb", Mmdb::new(&[("203.0.113.0/24", Data::asn(64_496))]).octets());
    folder.write("rtt.csv", "network,eu1,us1\n203.0.113.0/24,12.5,98\n");
}

#[test]
fn every_fragment_in_other_pages_of_the_manual_loads() {
    let folder = Folder::new(&[("ca.pem", CERTIFICATE), ("probe.pem", CERTIFICATE), ("probe-key.pem", KEY)]);
    write_places(&folder);
    let all = |name: &str| {
        let files = fs::read_dir(docs().join(name)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
    };
    let pages =
        all("monitors").chain(all("policies")).chain(["health.md", "transports.md"].map(|name| docs().join(name)));
    let mut count = 0;
    for page in pages {
        for block in fs::read_to_string(&page).unwrap().split("```yaml\n").skip(1) {
            let cluster = |(number, name)| format!("{{ name: {name}, addresses: [192.0.2.{number}] }}");
            let clusters: Vec<_> = (1..).zip(["eu1", "eu2", "us1", "us2", "centre"]).map(cluster).collect();
            let block = block.split("```").next().unwrap();
            let clusters = format!("clusters: [{}]\n", clusters.join(", "));
            let clusters = if block.contains("clusters:\n") { "" } else { &*clusters };
            let version = if block.starts_with("version:") { "" } else { "version: 1\n" };
            folder.write("f.yaml", format!("{version}{clusters}{block}"));
            load_with_key(&folder.path().join("f.yaml"));
            count += 1;
        }
    }
    assert!(count > 0, "the fragments are gone");
}

/// Checks the first configuration that a new user sees, with a zone file as the README describes it.
#[test]
fn configuration_of_the_readme_passes_the_check() {
    let text = fs::read_to_string(docs().join("../README.md")).unwrap();
    let mut blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains("\nlisten:")).expect("a configuration");
    let folder = Folder::new(&[("fairway.yaml", block)]);
    folder.write("gslb.example.zone", "$TTL 1h\n@ SOA ns1 hostmaster 1 4h 15m 2w 5m\n@ NS ns1\nns1 A 192.0.2.53\n");
    let source = Source::Path(folder.path().join("fairway.yaml"));
    assert_eq!(check_at(&source, &|_| None, std::time::UNIX_EPOCH), []);
}

#[test]
fn schema_in_the_manual_is_current() {
    compare(&docs().join("config/schema.json"), &schema());
}

#[test]
fn tables_of_keys_in_the_manual_are_current() {
    let schema = schema::schema();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut updated = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("<!-- ") {
            let (marker, inside) = after.split_once(" -->\n").unwrap();
            let (_, after) = inside.split_once("<!-- end -->").unwrap();
            let table = match marker.strip_prefix("keys: ") {
                // The sections have their own headings.
                Some("root") => table(&schema, |value| value["type"] == "string"),
                Some(name) => table(&schema["$defs"][name], |_| true),
                None => variables(),
            };
            updated.push_str(&format!("{before}<!-- {marker} -->\n{table}<!-- end -->"));
            rest = after;
        }
        updated.push_str(rest);
        compare(&page, &updated);
    }
}

/// Returns the table of the keys of a section, required ones first.
fn table(section: &Value, wanted: impl Fn(&Value) -> bool) -> String {
    let properties = section["properties"].as_object().unwrap_or_else(|| panic!("no keys: {section}"));
    let needed = |key: &str| section["required"].as_array().is_some_and(|all| all.iter().any(|k| k == key));
    let mut keys: Vec<_> = properties.iter().filter(|(_, value)| wanted(value)).collect();
    keys.sort_by_key(|(key, _)| (!needed(key), key.as_str()));
    let mut table = "\n| Key | Value | Default | Meaning |\n|---|---|---|---|\n".to_owned();
    for (key, value) in keys {
        let default = match &value["default"] {
            Value::Null if needed(key) => "needed".to_owned(),
            Value::Null => String::new(),
            Value::String(text) => format!("`{text}`"),
            other => format!("`{other}`"),
        };
        let meaning = value["description"].as_str().unwrap_or_default().replace('|', "\\|");
        table.push_str(&format!("| `{key}` | {} | {default} | {meaning} |\n", shape(value).replace('|', "\\|")));
    }
    table.push('\n');
    table
}

/// Returns a short description of the values of a key.
fn shape(value: &Value) -> String {
    if let Some(title) = value["title"].as_str() {
        return title.to_owned();
    }
    if let Some(words) = value["enum"].as_array() {
        return words.iter().map(|word| format!("`{}`", word.as_str().unwrap())).collect::<Vec<_>>().join(", ");
    }
    if value["$ref"].is_string() {
        return "a section, below".to_owned();
    }
    match (value["type"].as_str(), &value["minimum"], &value["maximum"]) {
        (Some("array"), ..) => format!("list: {}", shape(&value["items"])),
        (Some("boolean"), ..) => "`true` or `false`".to_owned(),
        (Some("object"), ..) => "keys and texts".to_owned(),
        (Some("string"), ..) => "text".to_owned(),
        (_, min, max) if !min.is_null() && !max.is_null() => format!("{min} to {max}"),
        (_, min, _) => format!("{min} or more"),
    }
}

fn variables() -> String {
    let rows = environment::VARIABLES.iter().map(|(name, what)| format!("| `{name}` | {what} |\n"));
    format!("\n| Variable | What it sets |\n|---|---|\n{}\n", rows.collect::<String>())
}

/// Builds an object of a kind with these keys.
type Make<'a> = &'a dyn Fn(&str, &[(&str, Value)]) -> Value;

/// Compares a configuration that has every default of the schema with one that has none of these keys.
#[test]
fn defaults_of_schema_and_program_are_equal() {
    let schema = schema::schema();
    let with_defaults = |name: &str, keep: &[(&str, Value)]| {
        let properties = schema["$defs"][name]["properties"].as_object().unwrap();
        let defaults = properties.iter().filter_map(|(key, value)| Some((key.clone(), value.get("default")?.clone())));
        defaults.chain(keep.iter().map(|(key, value)| ((*key).to_owned(), value.clone()))).collect::<Value>()
    };
    let name = |name: &str| ("name", Value::from(name));
    let bare =
        |keep: &[(&str, Value)]| keep.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect::<Value>();
    let (pool, monitor) = ([name("p"), ("policy", "weighted".into())], [name("m"), ("type", "http".into())]);
    let member = [("cluster", "c".into())];
    let load = [name("gw"), ("type", "prometheus".into())];
    let objects = |make: Make<'_>| {
        let mut pool = make("Pool", &pool);
        pool["members"] = [make("Member", &member)].to_vec().into();
        json!({
            "version": 1,
            "clusters": [{ "name": "c", "addresses": ["192.0.2.1"] }],
            "pools": [pool],
            "monitors": [make("Monitor", &monitor)],
            "load": [make("Load", &load)],
        })
    };
    let mut all = objects(&with_defaults);
    for (section, of) in [("listen", "Listen"), ("log", "Log"), ("tcp", "Tcp"), ("udp", "Udp"), ("health", "Health")] {
        all[section] = with_defaults(of, &[]);
    }
    all["drainTimeout"] = schema["properties"]["drainTimeout"]["default"].clone();
    // JSON is YAML.
    let (with, without) = (loaded(&all.to_string()), loaded(&objects(&|_, keep| bare(keep)).to_string()));
    assert_eq!((with.desired, with.settings), (without.desired, without.settings));
}
