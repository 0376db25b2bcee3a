//! The store of declared objects.

use super::*;
use crate::{StoreBackend, StoreSettings};

#[test]
fn default_store_is_in_the_data_folder() {
    assert_eq!(loaded("version: 1\n").settings.store, StoreSettings::default());
    assert_eq!(loaded("version: 1\nstore: {}\n").settings.store, StoreSettings::default());
}

#[test]
fn store_keys_are_read_from_a_file_and_never_shown() {
    let load = |text: &str| {
        let folder = Folder::new(&[("f.yaml", "version: 1\nstore: { keys: { file: keys } }\n"), ("keys", text)]);
        folder.load("f.yaml").map(|loaded| loaded.settings.store.keys.len()).map_err(|errors| format!("{errors:?}"))
    };
    let [new, old] = ["a", "B"].map(|digit| digit.repeat(64));
    assert_eq!(load(&format!("# new\n{new}\n\n  {old} \n")), Ok(2));
    for (text, what) in [
        (format!("{new}\n{old}0"), "line 2 is not a key of 64 hexadecimal digits"),
        ("# none".to_owned(), "there is no key"),
        (format!("{new}\n").repeat(17), "there are 17 keys"),
    ] {
        let error = load(&text).unwrap_err();
        assert!(error.contains(what) && error.contains("openssl rand -hex 32") | error.contains("remove"), "{error}");
        assert!(!error.contains("aaaa"), "{error}");
    }
}

#[test]
fn etcd_settings_are_converted() {
    use std::time::Duration;

    use fairway_etcd::{Settings, Source};

    let store = |text: &str| {
        let folder = Folder::new(&[("f.yaml", &format!("version: 1\nstore: {{ etcd: {{ {text} }} }}\n"))]);
        let store = folder.load("f.yaml").unwrap().settings.store.backend;
        (store, ["ca.pem", "c.pem", "k.pem", "word"].map(|name| Source::File(folder.path().join(name))))
    };
    let (plain, _) = store("endpoints: [\"http://127.0.0.1:2379/\"]");
    let etcd = Settings {
        endpoints: vec!["http://127.0.0.1:2379".parse().unwrap()],
        user: None,
        ca: None,
        identity: None,
        endpoint_timeout: Duration::from_secs(2),
        call_timeout: Duration::from_secs(4),
    };
    assert_eq!(plain, StoreBackend::Etcd { prefix: "/fairway/".to_owned(), etcd });
    let (complete, [ca, certificate, key, password]) = store(
        "endpoints: [\"https://a:2379\", \"https://[::1]:2379\"], prefix: /eu, user: ann, passwordFile: word, ca: ca.pem, \
         certificate: c.pem, key: k.pem, timeout: 500ms",
    );
    let etcd = Settings {
        endpoints: ["https://a:2379", "https://[::1]:2379"].map(|url| url.parse().unwrap()).into(),
        user: Some(("ann".to_owned(), password)),
        ca: Some(ca),
        identity: Some((certificate, key)),
        endpoint_timeout: Duration::from_millis(500),
        call_timeout: Duration::from_secs(1),
    };
    assert_eq!(complete, StoreBackend::Etcd { prefix: "/eu/".to_owned(), etcd });
}

#[test]
fn etcd_errors_are_reported_without_password() {
    let shown = errors_of(
        "version: 1
store:
  etcd:
    endpoints: [\"etcd:2379\", \"http://ann:secret@etcd:2379\", \"http://etcd:2379/path\"]
    prefix: \"a b\"
    user: ann
    certificate: c.pem
    timeout: 1m
",
    );
    let shown = shown.join("\n");
    for part in [
        "store.etcd.endpoints[0]: etcd:2379: not a URL: no scheme",
        "store.etcd.endpoints[1]: etcd:2379: the URL holds a user or a password; use the keys user and password",
        "store.etcd.endpoints[2]: http://etcd:2379/path: the URL has a path",
        "store.etcd.endpoints: certificates have no effect on an http endpoint",
        "store.etcd.prefix: \"a b\" is not printable ASCII",
        "store.etcd.user: it has no effect without passwordFile",
        "store.etcd.certificate: it has no effect without key",
        "store.etcd.timeout: 1m is not between 100ms and 30s",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
    assert!(errors_of("version: 1\nstore: { etcd: { endpoints: [] } }\n")[0].contains("endpoints"));
}
