//! Every flag of external-dns that Fairway writes, knows or names in its manual exists in the real external-dns.

use std::{collections::BTreeSet, fs, process::Command};

use fairway_integration::real::program;

/// Returns the words with dashes in a text that are flags by their prefix.
fn flags_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words = text.split(|c: char| !is_part(c)).map(|word| word.trim_start_matches("--"));
    let prefixes = ["aws-", "azure-", "coredns-", "pdns-", "rfc2136-", "txt-", "webhook-provider-"];
    let is_flag = |word: &&str| {
        prefixes.iter().any(|prefix| word.starts_with(prefix) && word.len() > prefix.len()) || COMMON.contains(word)
    };
    words.filter(is_flag).map(str::to_owned).collect()
}

/// Flags without a prefix of their provider.
const COMMON: &[&str] = &[
    "batch-change-interval",
    "create-ptr",
    "domain-filter",
    "dry-run",
    "events",
    "exclude-domains",
    "interval",
    "managed-record-types",
    "migrate-from-txt-owner",
    "min-event-sync-interval",
    "min-ttl",
    "namespace",
    "once",
    "policy",
    "provider-cache-time",
    "regex-domain-exclusion",
    "regex-domain-filter",
    "registry",
    "tls-ca",
    "tls-client-cert",
    "tls-client-cert-key",
    "zone-id-filter",
    "zone-name-filter",
];
/// Flags of aws and azure that a record or `--set` commonly has.
const CLOUDS: &[&str] = &[
    "aws-api-retries",
    "aws-assume-role",
    "aws-assume-role-external-id",
    "aws-batch-change-interval",
    "aws-batch-change-size",
    "aws-evaluate-target-health",
    "aws-prefer-cname",
    "aws-zone-match-parent",
    "aws-zone-type",
    "azure-config-file",
    "azure-resource-group",
    "azure-subscription-id",
    "azure-user-assigned-identity-client-id",
];

#[test]
fn real_external_dns_has_every_flag_that_fairway_uses() {
    let output = Command::new(program("external-dns", "external-dns")).arg("--help").output().expect("it starts");
    let help = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let name = |line: &str| line.split(['=', ' ', '[']).next().unwrap_or_default().to_owned();
    let lines = help.lines().filter_map(|line| line.strip_prefix("  --"));
    let known: BTreeSet<_> = lines.map(|line| name(line.strip_prefix("[no-]").unwrap_or(line))).collect();
    assert!(known.len() > 90, "expected more than 90 flags in {help}");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut used: BTreeSet<String> = COMMON.iter().chain(CLOUDS).map(|flag| (*flag).to_owned()).collect();
    for file in [
        "crates/intents/src/updates/mapping.rs",
        "src/cli/publish_flags.rs",
        "docs/providers/declared.md",
        "docs/reference/dns-update-records.md",
        "docs/providers/README.md",
    ] {
        let text = fs::read_to_string(format!("{root}/{file}")).expect("the file exists");
        used.extend(flags_in(&text));
    }
    assert!(used.len() > 60, "expected more than 60 flags in the files, found {used:?}");
    let missing: Vec<_> = used.difference(&known).collect();
    assert!(missing.is_empty(), "external-dns has no flags {missing:?}");
    for provider in ["aws", "azure", "cloudflare", "coredns", "google", "pdns", "rfc2136", "webhook"] {
        assert!(help.contains(provider), "external-dns has no provider {provider}");
    }
}
