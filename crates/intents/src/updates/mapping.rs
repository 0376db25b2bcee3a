//! The parameters of a DNS update record, for the providers that Fairway runs itself. Most have the names of external-dns' flags. Where
//! external-dns has no flag (the etcd of CoreDNS, files, weights), the parameter is Fairway's own.

/// A provider that Fairway runs itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderKind {
    /// Kubernetes objects of kind DNSEndpoint, as files in a folder.
    DnsEndpoint,
    /// An etcd that CoreDNS reads.
    Etcd,
    /// A zone file.
    File,
    /// The HTTP API of PowerDNS.
    PowerDns,
    /// A server that accepts DNS UPDATE (RFC 2136).
    Rfc2136,
    /// A webhook provider of external-dns.
    Webhook,
}

/// The use of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Part of the address of the provider, or of the trust in it. A change requires the secrets to be given again.
    Address,
    /// Accepted with this value only; the text says why.
    Fixed(&'static str, &'static str),
    /// Accepted and ignored, because it configures something that Fairway does not have.
    Ignored,
    /// A setting that is never shown.
    Secret,
    /// Any other setting.
    Setting,
    /// Rejected; the text says what to do instead.
    Unsupported(&'static str),
}

use Use::{Address, Fixed, Ignored, Secret, Setting, Unsupported};

type Parameter = (&'static str, Use);

/// A provider that Fairway runs itself, with its parameters.
#[derive(Debug)]
pub(super) struct Provider {
    pub(super) kind: ProviderKind,
    /// Name in records.
    pub(super) name: &'static str,
    /// Prefixes that a record may leave out: `host` is `rfc2136-host`.
    prefixes: &'static [&'static str],
    tables: &'static [&'static [Parameter]],
}

impl Provider {
    /// Returns the provider of this name, or `None` if only external-dns supports it.
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        PROVIDERS.iter().find(|provider| provider.name == name)
    }

    /// Returns the full name and the use of a parameter that is given with the provider's prefix or without it, in any case.
    pub(super) fn parameter(&self, given: &str) -> Option<Parameter> {
        let given = given.to_ascii_lowercase();
        let find = |name: &str| self.parameters().find(|(known, _)| *known == name);
        find(&given).or_else(|| self.prefixes.iter().find_map(|prefix| find(&format!("{prefix}{given}"))))
    }

    /// Returns the names of the parameters that have an effect.
    pub(super) fn settings(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.parameters().filter(|(_, is)| matches!(is, Address | Secret | Setting)).map(|(name, _)| name)
    }

    fn parameters(&self) -> impl Iterator<Item = Parameter> + use<> {
        self.tables.iter().copied().flatten().copied()
    }
}

/// Returns true if the value of a parameter is a secret. Of parameters that are not in the tables, the end of the name decides.
pub(super) fn is_secret(provider: &str, parameter: &str) -> bool {
    match Provider::of(provider).and_then(|provider| provider.parameter(parameter)) {
        Some((_, Secret)) => true,
        Some((_, Unsupported(_))) | None => is_secret_name(parameter),
        Some(_) => false,
    }
}

/// Returns true if the name of a parameter ends like that of a secret.
pub fn is_secret_name(parameter: &str) -> bool {
    let name = parameter.to_ascii_lowercase();
    ["credentials", "key", "passphrase", "password", "secret", "token"].iter().any(|end| name.ends_with(end))
}

const DOMAINS: &str = "list the domains in domain-filter and exclude-domains";
const TSIG: &str = "updates go over TCP and are signed with TSIG";

/// Parameters of every provider.
const COMMON: &[Parameter] = &[
    ("domain-filter", Setting),
    ("exclude-domains", Setting),
    ("policy", Setting),
    ("interval", Setting),
    ("dry-run", Setting),
    ("managed-record-types", Setting),
    ("batch-change-interval", Setting),
    ("events", Ignored),
    ("min-event-sync-interval", Ignored),
    ("min-ttl", Ignored),
    ("provider-cache-time", Ignored),
    ("create-ptr", Fixed("false", "PTR records are not published")),
    ("once", Fixed("false", "a record is in effect until it is deleted; `fairway publish apply` syncs at once")),
    ("regex-domain-filter", Unsupported(DOMAINS)),
    ("regex-domain-exclusion", Unsupported(DOMAINS)),
    ("zone-id-filter", Unsupported(DOMAINS)),
    ("zone-name-filter", Unsupported(DOMAINS)),
];
/// Parameters of the registry, for providers that need one.
const REGISTRY: &[Parameter] = &[
    ("registry", Setting),
    ("txt-owner-id", Setting),
    ("txt-prefix", Setting),
    ("txt-suffix", Setting),
    ("txt-wildcard-replacement", Setting),
    ("txt-encrypt-enabled", Setting),
    ("txt-encrypt-aes-key", Secret),
    ("txt-cache-interval", Ignored),
    ("migrate-from-txt-owner", Unsupported("use `fairway publish take` to take records over from another owner")),
];
const RFC2136: &[Parameter] = &[
    ("rfc2136-host", Address),
    ("rfc2136-port", Address),
    ("rfc2136-zone", Setting),
    ("rfc2136-insecure", Setting),
    ("rfc2136-tsig-keyname", Setting),
    ("rfc2136-tsig-secret", Secret),
    ("rfc2136-tsig-secret-alg", Setting),
    ("rfc2136-tsig-axfr", Fixed("true", "the zone is always read by a transfer, which is signed if a key is given")),
    ("rfc2136-min-ttl", Unsupported("set the TTL in the intent (gslb.ttl)")),
    ("rfc2136-use-tls", Fixed("false", TSIG)),
    ("rfc2136-skip-tls-verify", Fixed("false", TSIG)),
    ("rfc2136-gss-tsig", Fixed("false", TSIG)),
    ("rfc2136-load-balancing-strategy", Fixed("disabled", "a record has one server; create one record per server")),
];
/// Allows secrets to be sent over plain HTTP to another machine.
pub(super) const PLAIN_HTTP: &str = "allow-plain-http";
const TRUST_ANCHORS: &str = "the server's certificate is checked against the trust anchors of this machine; remove it";
const POWERDNS: &[Parameter] = &[
    ("pdns-server", Address),
    (PLAIN_HTTP, Setting),
    ("pdns-api-key", Secret),
    ("pdns-server-id", Fixed("localhost", "PowerDNS calls its own server localhost in its API")),
    ("pdns-skip-tls-verify", Fixed("false", "certificates are always verified")),
    ("tls-ca", Unsupported(TRUST_ANCHORS)),
    ("tls-client-cert", Unsupported(TRUST_ANCHORS)),
    ("tls-client-cert-key", Unsupported(TRUST_ANCHORS)),
];
const ETCD: &[Parameter] = &[
    ("etcd-urls", Address),
    (PLAIN_HTTP, Setting),
    ("etcd-username", Setting),
    ("etcd-password", Secret),
    ("etcd-ca-file", Address),
    ("etcd-cert-file", Setting),
    ("etcd-key-file", Secret),
    ("etcd-tls-server-name", Unsupported("a certificate is verified for the host of the URL; use that host")),
    ("etcd-tls-insecure", Fixed("false", "certificates are always verified")),
    ("coredns-prefix", Setting),
    ("coredns-strictly-owned", Fixed("false", "the registry holds the owner of each record")),
];
const WEBHOOK: &[Parameter] = &[
    ("webhook-provider-url", Address),
    (PLAIN_HTTP, Setting),
    ("webhook-provider-read-timeout", Setting),
    ("webhook-provider-write-timeout", Setting),
    ("tls-ca", Address),
    ("tls-client-cert", Setting),
    ("tls-client-cert-key", Secret),
    ("token", Secret),
    ("weights", Setting),
];
const DNSENDPOINT: &[Parameter] = &[("folder", Setting), ("namespace", Setting), ("weights", Setting)];
const FILE: &[Parameter] = &[("path", Setting)];

const PROVIDERS: &[Provider] = &[
    Provider {
        kind: ProviderKind::DnsEndpoint,
        name: "dnsendpoint",
        prefixes: &["dnsendpoint-"],
        tables: &[DNSENDPOINT, COMMON],
    },
    Provider {
        kind: ProviderKind::Etcd,
        name: "etcd",
        prefixes: &["etcd-", "coredns-"],
        tables: &[ETCD, COMMON, REGISTRY],
    },
    Provider { kind: ProviderKind::File, name: "file", prefixes: &["file-"], tables: &[FILE, COMMON, REGISTRY] },
    Provider {
        kind: ProviderKind::PowerDns,
        name: "powerdns",
        prefixes: &["pdns-"],
        tables: &[POWERDNS, COMMON, REGISTRY],
    },
    Provider {
        kind: ProviderKind::Rfc2136,
        name: "rfc2136",
        prefixes: &["rfc2136-"],
        tables: &[RFC2136, COMMON, REGISTRY],
    },
    Provider {
        kind: ProviderKind::Webhook,
        name: "webhook",
        prefixes: &["webhook-provider-"],
        tables: &[WEBHOOK, COMMON, REGISTRY],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_is_found_with_and_without_prefix_in_any_case() {
        let provider = Provider::of("rfc2136").unwrap();
        for given in ["rfc2136-host", "RFC2136-Host", "host"] {
            assert_eq!(provider.parameter(given), Some(("rfc2136-host", Address)), "{given}");
        }
        assert_eq!(Provider::of("etcd").unwrap().parameter("prefix"), Some(("coredns-prefix", Setting)));
        assert_eq!(provider.parameter("pdns-server"), None);
    }

    #[test]
    fn secrets_are_found_by_table_or_by_name() {
        for (provider, parameter, expected) in [
            ("rfc2136", "tsig-secret", true),
            ("rfc2136", "rfc2136-kerberos-password", true),
            ("rfc2136", "rfc2136-tsig-keyname", false),
            ("webhook", "tls-client-cert-key", true),
            ("webhook", "some-token", true),
            ("etcd", "etcd-urls", false),
            ("akamai", "Akamai-Client-Token", true),
            ("aws", "aws-zone-type", false),
        ] {
            assert_eq!(is_secret(provider, parameter), expected, "{provider} {parameter}");
        }
    }
}
