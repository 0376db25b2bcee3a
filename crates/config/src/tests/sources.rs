//! Input from outside the configuration file: zone files, secrets, environment, flags.

use super::*;
use crate::{environment, load};

/// A private key for tests, and its certificate.
pub(super) const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgaDDZRZcH29ji5bPF\n\
2ZS50qtNOPEgC/UgIvfPGQ7jtiGhRANCAATA70ComlB0MTKX0y7BTnUQ5AAmJc9g\n\
cU3QVT00hUnscTk0CY4ycmYCPB0zBvoQ2V+jRAoHOHXaUX8699H8kjFx\n\
-----END PRIVATE KEY-----\n";
pub(super) const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
MIIBizCCATGgAwIBAgIUBcv9zdowA7azvcr7pphqbJRC+0kwCgYIKoZIzj0EAwIw\n\
GjEYMBYGA1UEAwwPZ2F0ZXdheS5leGFtcGxlMCAXDTI2MTEyMTE1NTgzOVoYDzIx\n\
MjYxMDI4MTU1ODM5WjAaMRgwFgYDVQQDDA9nYXRld2F5LmV4YW1wbGUwWTATBgcq\n\
hkjOPQIBBggqhkjOPQMBBwNCAATA70ComlB0MTKX0y7BTnUQ5AAmJc9gcU3QVT00\n\
hUnscTk0CY4ycmYCPB0zBvoQ2V+jRAoHOHXaUX8699H8kjFxo1MwUTAdBgNVHQ4E\n\
FgQUCkYELxkljo1wekgZgXTvAYXFSJswHwYDVR0jBBgwFoAUCkYELxkljo1wekgZ\n\
gXTvAYXFSJswDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAS9dDT\n\
Ty+v+Cx8AcsyHlk7OFFav5sDOcCygQeOk2W9cAIhAICNxj7IWTZRypmMweS+6dox\n\
acnu86ff6bXSbGLq3LON\n\
-----END CERTIFICATE-----\n";

#[test]
fn included_zone_files_are_read_relative_to_the_zone_file() {
    let folder = Folder::new(&[
        ("f.yaml", "version: 1\nzones: [{name: a.example, file: zones/a.zone}]\n"),
        (
            "zones/a.zone",
            "$TTL 1h\n@ SOA ns hostmaster 1 1d 2h 1000h 1m\n  NS ns\nns A 192.0.2.53\n$INCLUDE more/www\n",
        ),
        ("zones/more/www", "www A 192.0.2.80\n"),
    ]);
    let loaded = folder.load("f.yaml").unwrap();
    assert_eq!((loaded.zones[0].records.len(), &loaded.warnings[..]), (4, &[][..]));
    let files: Vec<_> =
        loaded.fingerprint.files().map(|file| file.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
    assert_eq!(files, ["f.yaml", "zones/a.zone", "zones/more/www"]);
    fs::remove_file(folder.path().join("zones/more/www")).unwrap();
    let errors = folder.load("f.yaml").unwrap_err();
    assert!(errors[0].starts_with("zones/a.zone:5:"), "{errors:?}");
}

#[test]
fn errors_of_configuration_and_zones_are_sorted_by_location() {
    let folder = Folder::new(&[
        ("f.yaml", "version: 1\nzones: [{name: a.example, file: a.zone}]\nuser: 7\n"),
        ("a.zone", "$TTL 1h\n@ SOA ns hostmaster 1 1d 2h 1000h 1m\n  NS ns\nns A 192.0.2.530\n"),
    ]);
    let errors = folder.check("f.yaml");
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[1].starts_with("a.zone:4:") && errors[2].starts_with("f.yaml:3:7: user"), "{errors:?}");
}

#[test]
fn address_in_zone_file_at_steered_name_is_rejected() {
    let folder = Folder::new(&[
        (
            "f.yaml",
            "version: 1
zones: [{name: a.example, file: a.zone}]
clusters: [{name: c, addresses: [192.0.2.1]}]
pools: [{name: p, policy: failover, members: [{cluster: c}]}]
names: [{name: www.a.example, pool: p}]
overrides: [{match: c, action: drain, reason: x, until: 2025-12-31T00:00:00Z}]
overrideRules: [{pools: [p, q], minClusters: 1}]
",
        ),
        ("a.zone", "$TTL 1h\n@ SOA ns hostmaster 1 1d 2h 1000h 1m\n  NS ns\nns A 192.0.2.53\nwww A 192.0.2.80\n"),
    ]);
    let errors = folder.check("f.yaml");
    assert!(errors.iter().any(|error| error.starts_with("a.zone:5:") && !error.contains("warning")), "{errors:?}");
    folder.write("a.zone", "$TTL 1h\n@ SOA ns hostmaster 1 1d 2h 1000h 1m\n  NS ns\nns A 192.0.2.53\nwww TXT x\n");
    let ended = "f.yaml:6:13: warning: the override of c expired at 2025-12-31T00:00:00Z; remove it";
    let matches_none = "f.yaml:7:29: warning: overrideRules[0].pools[1]: q matches no pool of the files; \
        fix it, unless the pool is declared over the API";
    assert_eq!(folder.check("f.yaml"), [ended, matches_none]);
}

#[test]
fn check_warns_of_overrides_that_break_a_rule() {
    let text = |scope: &str, action: &str| {
        format!(
            "version: 1
clusters: [{{name: a, addresses: [192.0.2.1]}}, {{name: b, addresses: [192.0.2.2, 192.0.2.3]}}]
pools: [{{name: p, policy: failover, members: [{{cluster: a}}, {{cluster: b}}]}}]
overrideRules: [{{pools: [p], minClusters: 2}}]
overrides: [{{match: {scope}, action: {action}, reason: x, until: 2026-01-02T00:00:00Z}}]
"
        )
    };
    let broken = "f.yaml:5:13: warning: the overrides leave pool p with 1 of 2 clusters, and overrideRules require 2; \
        remove an override, or change the rule";
    for (scope, action, expected) in
        [("b", "drain", Some(broken)), ("b", "up", None), ("b/192.0.2.2", "down", None), ("a", "down", Some(broken))]
    {
        let found = Folder::new(&[("f.yaml", &text(scope, action))]).check("f.yaml");
        assert_eq!(found, Vec::from_iter(expected), "{scope} {action}");
    }
}

#[test]
fn override_that_matches_nothing_is_a_warning_with_a_hint() {
    let text = "version: 1
clusters: [{name: eu1, addresses: [192.0.2.1], capacity: 10}]
pools: [{name: shop, policy: [load, weighted], members: [{cluster: eu1}]}]
overrides:
- {pools: sh*, load: off, reason: x, until: 2026-01-02T00:00:00Z}
- {pools: shpo, load: off, reason: x, until: 2026-01-02T00:00:00Z}
- {match: eu2, action: drain, reason: x, until: 2026-01-02T00:00:00Z}
";
    let of_pools =
        "f.yaml:6:11: warning: overrides[1].pools: no pool with the step load matches shpo; did you mean shop?";
    let of_clusters = "f.yaml:7:11: warning: overrides[2].match: no address matches eu2; did you mean eu1?";
    assert_eq!(Folder::new(&[("f.yaml", text)]).check("f.yaml"), [of_pools, of_clusters]);
}

#[test]
fn secrets_are_never_shown() {
    let text = "version: 1
monitors: [{name: m, type: https, tls: {ca: {file: ca.pem}, cert: {file: ca.pem}, key: {env: KEY}}}]
";
    let folder = Folder::new(&[("f.yaml", text), ("ca.pem", CERTIFICATE)]);
    let one_line = KEY.replace('\n', "");
    let fused = KEY.replacen("-----\n", "----", 1);
    let cut = &KEY[..KEY.len() / 2];
    let parts: Vec<&str> = KEY.lines().filter(|line| !line.starts_with('-')).collect();
    let table = [
        (KEY, None),
        ("", Some("the environment variable \"KEY\" is not set or empty")),
        (&one_line, Some("client key: no END line, or no line breaks")),
        (&fused, Some("client key: malformed BEGIN line")),
        (cut, Some("client key: no END line")),
        (CERTIFICATE, Some("client key: no private key in the text")),
    ];
    for (key, error) in table {
        let attempt = attempt(
            &Source::Path(folder.path().join("f.yaml")),
            &|name| match name {
                "KEY" => Some(key.to_owned()),
                name => variable(&[], name),
            },
            None,
        );
        let shown = match &attempt.outcome {
            Ok(loaded) => format!("{loaded:?} {:?}", loaded.desired.violations()),
            Err(errors) => errors.iter().map(Diagnostic::to_string).collect(),
        };
        assert!(error.is_none_or(|error| shown.contains(error)), "{shown}");
        assert_eq!(error.is_none(), attempt.outcome.is_ok(), "{shown}");
        // As text, or as the numbers of its bytes.
        let hidden =
            |part: &&str| !shown.contains(*part) && !shown.contains(&format!("{:?}", &part.as_bytes()[..8])[1..20]);
        assert!(parts.iter().all(hidden), "{shown}");
        assert!(attempt.fingerprint.files().any(|file| file.ends_with("ca.pem")));
    }
}

#[test]
fn monitor_that_cannot_run_is_rejected_at_its_key() {
    let text = "version: 1
monitors:
- {name: a, type: https, tls: {ca: {file: f.yaml}}}
- {name: b, type: https, tls: {serverName: \"a b\"}}
- {name: c, type: http, path: healthz}
- {name: d, type: http, headers: {\"a b\": c}}
- {name: e, type: http, method: HEAD, body: ok}
- {name: f, type: http, host: \"a@b\"}
";
    let expected = [
        "f.yaml:3:36: monitors[0].tls.ca: ca: no certificate in the text; give at least one certificate in PEM",
        "f.yaml:4:44: monitors[1].tls.serverName: server name \"a b\" is not a DNS name or address; write it like gateway.example",
        "f.yaml:5:31: monitors[2].path: path \"healthz\" is not a request target; write it like /healthz/ready",
        "f.yaml:6:34: monitors[3].headers: header \"a b\" cannot be sent; a name has letters, digits and hyphens, a value visible characters",
        "f.yaml:7:45: monitors[4].body: body: a response to HEAD has no body; write method GET, or remove body",
        "f.yaml:8:31: monitors[5].host: host \"a@b\" is not a host name; write it like shop.example or shop.example:8443",
    ];
    assert_eq!(errors_of(text), expected);
}

#[test]
fn missing_secret_is_reported_by_name() {
    let text = "version: 1
monitors: [{name: m, type: https, tls: {cert: {env: CERT}, key: {file: key.pem}}}, {name: n, type: https, tls: {key: {file: f.yaml}}}]
";
    let expected = [
        "f.yaml:2:53: monitors[0].tls.cert.env: the environment variable \"CERT\" is not set or empty; set it in the environment of fairway",
        "f.yaml:2:72: monitors[0].tls.key.file: key.pem does not exist; fix the path; relative paths start at the configuration file's folder",
        "f.yaml:2:112: monitors[1].tls: cert and key must be given together; add cert, or remove the other one",
    ];
    assert_eq!(errors_of(text), expected);
}

#[test]
fn environment_takes_precedence_over_file() {
    let text = "version: 1\nlisten: {dns: [\"127.0.0.1:1\"], http: \"127.0.0.1:2\"}\nlog: {level: warn}\ndataDir: d\nuser: a\n";
    let folder = Folder::new(&[("f.yaml", text)]);
    let env = [
        ("FAIRWAY_LISTEN_DNS", "127.0.0.1:53, [::1]:53"),
        ("FAIRWAY_LISTEN_HTTP", "off"),
        ("FAIRWAY_LISTEN_HEALTH", "[::]:8054"),
        ("FAIRWAY_LOG", "debug"),
        ("FAIRWAY_DATA_DIR", "/data"),
        ("FAIRWAY_USER", "b"),
        ("STATE_DIRECTORY", "/state"),
    ];
    let settings = folder.load_with("f.yaml", &env).unwrap().settings;
    assert_eq!((settings.dns.len(), settings.http, settings.log.filter.as_str()), (2, None, "debug"));
    assert_eq!((settings.data_dir, settings.user.as_deref()), (Some("/data".into()), Some("b")));
    assert_eq!(settings.health_listener.unwrap().address, "[::]:8054".parse().unwrap());
    let env = &env[1..];
    let of_file = folder.load_with("f.yaml", &env[5..]).unwrap().settings;
    assert_eq!((of_file.data_dir, of_file.log.filter.as_str()), (Some(folder.path().join("d")), "warn"));
    folder.write("f.yaml", "version: 1\n");
    assert_eq!(folder.load_with("f.yaml", &env[5..]).unwrap().settings.data_dir, Some("/state".into()));
}

#[test]
fn invalid_variable_is_reported_by_name() {
    let folder = Folder::new(&[("f.yaml", "version: 1\n")]);
    let table = [
        ("FAIRWAY_LISTEN_DNS", "::1", "\"::1\" has no port; write \"[::1]:53\""),
        ("FAIRWAY_LISTEN_DNS", ",", "the list has no address; write it like 0.0.0.0:53,[::]:53, or unset it"),
        ("FAIRWAY_LISTEN_HTTP", "on", "\"on\" is not ADDRESS:PORT or off; write it like 127.0.0.1:8053 or off"),
        ("FAIRWAY_LISTEN_HEALTH", "8054", "\"8054\" is not ADDRESS:PORT; write it like \"0.0.0.0:53\" or \"[::]:53\""),
        (
            "FAIRWAY_LOG",
            "loud",
            "\"loud\" is not a level; write a level (error, warn, info, debug, trace, off), or TARGET=LEVEL, separated by commas",
        ),
    ];
    for (name, value, error) in table {
        assert_eq!(
            folder.load_with("f.yaml", &[(name, value)]).unwrap_err(),
            [format!("environment: {name}: {error}")]
        );
    }
}

#[test]
fn unknown_variable_is_a_warning() {
    let names = ["FAIRWAY_LISTEN_DSN", "FAIRWAY_LOG", "FAIRWAY_KEY", "FAIRWAY_CONFIG", "PATH"].map(str::to_owned);
    let others = ["FAIRWAY_KEY".to_owned()].into();
    let warnings: Vec<_> = environment::unknown_variables(names, &others).iter().map(Diagnostic::to_string).collect();
    assert_eq!(
        warnings,
        ["environment: warning: FAIRWAY_LISTEN_DSN: unknown variable; did you mean FAIRWAY_LISTEN_DNS?"]
    );
}

#[test]
fn flags_give_static_zones_without_folder_and_listener() {
    let folder =
        Folder::new(&[("a.zone", "$TTL 1h\n@ SOA ns hostmaster 1 1d 2h 1000h 1m\n  NS ns\nns A 192.0.2.53\n")]);
    let zone = |name: &str| ("a.example".parse().unwrap(), folder.path().join(name));
    let listen = vec!["127.0.0.1:5353".parse().unwrap()];
    let source = Source::Flags { listen: listen.clone(), zones: vec![zone("a.zone")] };
    let loaded = load(&source, &|name| variable(&[("FAIRWAY_LISTEN_DNS", "127.0.0.1:1")], name)).unwrap();
    assert_eq!((loaded.settings.dns, loaded.settings.http, loaded.settings.data_dir), (listen, None, None));
    assert_eq!((loaded.zones.len(), loaded.desired.zones.len(), loaded.fingerprint.files().count()), (1, 1, 1));
    let source = Source::Flags { listen: vec![], zones: vec![zone("a.zone"), zone("a.zone")] };
    let errors = load(&source, &|_| None).unwrap_err();
    assert_eq!(folder.lines(&errors), ["command line: zone a.example. is given twice; remove one"]);
    let source = Source::Flags { listen: vec![], zones: vec![zone("none")] };
    assert!(load(&source, &|_| None).unwrap_err()[0].to_string().contains("does not exist"));
}
