//! The webhook over TLS with a token, as the real external-dns calls it: the authority in `SSL_CERT_FILE`, the token in the URL.

use std::{fs, net::SocketAddr, path::Path, process::Command};

use fairway_integration::{
    certificates::{authority, issue, openssl},
    cluster::{Cluster, LIMIT, dig},
    real::{Fairway, Process, free_port, wait_until},
};

use crate::{SHOP, counted, shop};

/// Creates a certificate of the authority for this machine, with a serial number.
fn certify(folder: &Path, serial: u32) {
    issue(folder, "hook", "IP:127.0.0.1", serial);
}

/// Returns the SHA-256 of a token.
fn sum(token: &str) -> String {
    let sum = Command::new("sh").args(["-c", &format!("printf %s {token} | sha256sum")]).output().expect("sh runs");
    String::from_utf8_lossy(&sum.stdout).split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the serial number of the certificate at an address.
fn shown(folder: &Path, webhook: SocketAddr) -> String {
    let line = format!("openssl s_client -connect {webhook} </dev/null 2>/dev/null | openssl x509 -noout -serial");
    let output = Command::new("sh").args(["-c", &line]).current_dir(folder).output().expect("sh is everywhere");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn external_dns_uses_tls_with_token_and_accepts_a_renewed_certificate() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificates = folder.path();
    authority(certificates);
    certify(certificates, 17);
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let token = "fwt_0123456789abcdef0123456789abcdef";
    let (cert, key) = (certificates.join("hook.pem"), certificates.join("hook.key"));
    let config = |token: &str| {
        format!(
            "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
webhook: {{ listen: \"{webhook}\", token: \"{}\", tls: {{ cert: {{ file: {} }}, key: {{ file: {} }} }} }}
",
            sum(token),
            cert.display(),
            key.display()
        )
    };
    let server = Fairway::start(&config(token), &[]);
    let cluster = Cluster::start("east");
    cluster.expose("shop", "203.0.113.10", &shop("", "1"));
    let authority = certificates.join("ca.pem");
    let trust = [("SSL_CERT_FILE", authority.to_str().expect("it is UTF-8"))];
    let url = |shown: &str| format!("https://{shown}{webhook}/owners/east");

    // A client that does not trust the authority, or has no token, is rejected and changes nothing.
    let mut stranger = cluster.external_dns(&url(""), "stranger", &["--source=service"], &trust);
    assert!(!stranger.ended(LIMIT).success(), "{}", stranger.output());
    assert!(stranger.output().contains("401"), "{}", stranger.output());
    assert_eq!(counted(&server).1, 0.0);

    let mut client = cluster.external_dns(&url(&format!("fairway:{token}@")), "east", &["--source=service"], &trust);
    wait_until("it is a member", LIMIT, || {
        assert!(client.is_running(), "{}", client.output());
        dig(&server, SHOP, "A") == ["203.0.113.10"]
    });
    assert_eq!(shown(certificates, webhook), "serial=11");
    let changes = counted(&server).1;
    // New connections get a renewed certificate, and the client does not notice.
    certify(certificates, 18);
    wait_until("the renewed certificate is shown", LIMIT, || shown(certificates, webhook) == "serial=12");
    let asked_again = |client: &mut Process| {
        let (before, _) = counted(&server);
        wait_until("it is asked again", LIMIT, || counted(&server).0 >= before + 3.0);
        assert!(client.is_running(), "{}", client.output());
    };
    asked_again(&mut client);

    // A truncated certificate is rejected and logged once; the old one stays in use.
    let refused = || server.process.output().matches("configuration rejected").count();
    let (before, whole) = (refused(), fs::read(&cert).expect("it is there"));
    fs::write(&cert, &whole[..whole.len() / 2]).expect("the folder can be written");
    wait_until("it is refused", LIMIT, || refused() > before);
    let status = server.command(&["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert_eq!(text.matches("use a certificate and its key").count(), 1, "{text}");
    assert_eq!(shown(certificates, webhook), "serial=12");
    asked_again(&mut client);
    fs::write(&cert, &whole).expect("the folder can be written");
    wait_until("it is taken again", LIMIT, || server.metric("fairway_config_stale", "") == 0.0);

    // A new token is valid from the next call on; the old one is rejected.
    server.write_config(&config("fwt_fedcba9876543210fedcba9876543210"));
    assert!(!client.ended(LIMIT).success() && client.output().contains("401"), "{}", client.output());
    let url = url("fairway:fwt_fedcba9876543210fedcba9876543210@");
    let mut client = cluster.external_dns(&url, "east", &["--source=service"], &trust);
    asked_again(&mut client);
    assert_eq!((dig(&server, SHOP, "A"), counted(&server).1), (vec!["203.0.113.10".to_owned()], changes));
}

/// ExternalDNS has no client certificate of its own; a proxy beside it, or another client, may have one.
#[test]
fn client_certificate_opens_the_base_path_of_its_owner_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let certificates = folder.path();
    authority(certificates);
    certify(certificates, 1);
    issue(certificates, "east", "URI:spiffe://corp/east", 2);
    issue(certificates, "west", "URI:spiffe://corp/west", 3);
    // The same name, signed by itself.
    openssl(
        certificates,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout forged.key -out forged.pem -days 2 -subj /CN=x -addext subjectAltName=URI:spiffe://corp/east",
    );
    let webhook = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let file = |name: &str| format!("{{ file: {} }}", certificates.join(name).display());
    let config = format!(
        "zones: [{{ name: gslb.example, ns: [ns1.example.net] }}]
access: {{ names: [{{ to: [\"owner:*\"], domains: [gslb.example] }}] }}
webhook: {{ listen: \"{webhook}\", tls: {{ cert: {}, key: {}, clientCa: {} }}, owners: [{{ name: east, certificate: \"spiffe://corp/east\" }}, {{ name: west, certificate: \"spiffe://corp/west\" }}] }}
",
        file("hook.pem"),
        file("hook.key"),
        file("ca.pem"),
    );
    let _server = Fairway::start(&config, &[]);
    let status = |who: Option<&str>, path: &str| {
        let own = who.map(|who| format!("--cert {who}.pem --key {who}.key")).unwrap_or_default();
        let line = format!("curl -s -o answer -w %{{http_code}} --cacert ca.pem {own} https://{webhook}{path}");
        let output =
            Command::new("sh").args(["-c", &line]).current_dir(certificates).output().expect("sh is everywhere");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    wait_until("its own base path is open", LIMIT, || status(Some("east"), "/owners/east/records") == "200");
    assert_eq!(status(Some("west"), "/owners/west/records"), "200");
    for (who, path) in [
        (Some("west"), "/owners/east/records"),
        (Some("east"), "/records"),
        (Some("east"), "/owners/north/records"),
        (None, "/owners/east/records"),
    ] {
        assert_eq!(status(who, path), "401", "{who:?} {path}");
    }
    assert_eq!(status(Some("forged"), "/owners/east/records"), "000", "no handshake");
}
