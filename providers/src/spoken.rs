//! The flags of ExternalDNS (0.21) for the providers that are spoken here, and what each of them is to us.
//!
//! A record of where to publish (`dns-update-record`) says them; the daemon makes the settings of a publisher of them. Beside them
//! stand variables and parameters of our own, for what ExternalDNS has no flag for: the etcd behind CoreDNS, files, weights.

/// A provider that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// Kubernetes objects in a folder.
    DnsEndpoint,
    /// An etcd that CoreDNS reads.
    Etcd,
    /// A zone file.
    File,
    /// A PowerDNS with its HTTP API.
    PowerDns,
    /// A server that takes updates.
    Rfc2136,
    /// A provider that speaks the webhook of ExternalDNS.
    Webhook,
}

/// What a flag is to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is passed over: what it is about is always so here, or there is nothing of the kind.
    Idle,
    /// It cannot be had; why, or the way out.
    Never(&'static str),
    /// It may say this, which is so anyway; else why it cannot be had, or the way out.
    Only(&'static str, &'static str),
    /// A setting that tells where the provider is, and whom it is trusted for: secrets go there.
    Place,
    /// A setting that nobody is shown again.
    Secret,
    /// A setting.
    Setting,
}

use Use::{Idle, Never, Only, Place, Secret, Setting};

type Flag = (&'static str, Use);

/// A provider that is spoken here, with its flags.
#[derive(Debug)]
pub struct Spoken {
    /// Which it is.
    pub native: Native,
    /// As records call it.
    pub provider: &'static str,
    /// What its flags may be called without.
    prefixes: &'static [&'static str],
    tables: &'static [&'static [Flag]],
}

impl Spoken {
    /// The provider that records call so; none where only ExternalDNS speaks to it.
    pub fn of(provider: &str) -> Option<&'static Self> {
        SPOKEN.iter().find(|spoken| spoken.provider == provider)
    }

    /// The flag that a parameter is, by its name, with the provider's prefix or without.
    pub fn flag(&self, parameter: &str) -> Option<(&'static str, Use)> {
        let name = parameter.to_ascii_lowercase();
        let find = |name: &str| self.flags().find(|(flag, _)| *flag == name);
        find(&name).or_else(|| self.prefixes.iter().find_map(|prefix| find(&format!("{prefix}{name}"))))
    }

    /// The flags that say something.
    pub fn settings(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.flags().filter(|(_, is)| matches!(is, Place | Secret | Setting)).map(|(flag, _)| flag)
    }

    fn flags(&self) -> impl Iterator<Item = Flag> + use<> {
        self.tables.iter().copied().flatten().copied()
    }
}

/// Whether what a parameter of a provider says is secret.
pub fn is_secret(provider: &str, parameter: &str) -> bool {
    match Spoken::of(provider).and_then(|spoken| spoken.flag(parameter)) {
        Some((_, Secret)) => true,
        Some((_, Never(_))) | None => crate::flags::is_secret(parameter),
        Some(_) => false,
    }
}

/// All flags here that are ExternalDNS' own, without dashes.
pub fn of_external_dns() -> impl Iterator<Item = &'static str> {
    SPOKEN.iter().flat_map(Spoken::flags).map(|(flag, _)| flag).filter(|flag| !OURS.contains(flag))
}

/// Parameters that are no flags of ExternalDNS: variables of its provider coredns, and our own.
const OURS: &[&str] = &[
    "etcd-urls",
    "etcd-username",
    "etcd-password",
    "etcd-ca-file",
    "etcd-cert-file",
    "etcd-key-file",
    "etcd-tls-server-name",
    "etcd-tls-insecure",
    "folder",
    "path",
    "token",
    "weights",
];

const SOURCES: &str = "the names are those of the project's intents; take it out";
const DOMAINS: &str = "list domains in domain-filter and exclude-domains";
const PROCESS: &str = "it is about a process of external-dns, and none runs; take it out";
const BATCHES: &str = "batches are as large as the provider takes; take it out";

/// What all of them have.
const COMMON: &[Flag] = &[
    ("domain-filter", Setting),
    ("exclude-domains", Setting),
    ("policy", Setting),
    ("interval", Setting),
    ("dry-run", Setting),
    ("managed-record-types", Setting),
    ("batch-change-interval", Setting),
    ("batch-change-size", Never(BATCHES)),
    ("events", Idle),
    ("min-event-sync-interval", Idle),
    ("min-ttl", Idle),
    ("provider-cache-time", Idle),
    ("create-ptr", Only("false", "no PTR records are made")),
    ("once", Only("false", "a record holds until it is deleted; fairway publish apply syncs at once")),
    ("annotation-filter", Never(SOURCES)),
    ("label-filter", Never(SOURCES)),
    ("exclude-target-net", Never(SOURCES)),
    ("target-net-filter", Never(SOURCES)),
    ("source", Never(SOURCES)),
    ("regex-domain-filter", Never(DOMAINS)),
    ("regex-domain-exclusion", Never(DOMAINS)),
    ("zone-id-filter", Never(DOMAINS)),
    ("zone-name-filter", Never(DOMAINS)),
    ("log-format", Never(PROCESS)),
    ("log-level", Never(PROCESS)),
    ("metrics-address", Never(PROCESS)),
];
/// How it is known whose a record is, where that is not ExternalDNS' matter.
const REGISTRY: &[Flag] = &[
    ("registry", Setting),
    ("txt-owner-id", Setting),
    ("txt-prefix", Setting),
    ("txt-suffix", Setting),
    ("txt-wildcard-replacement", Setting),
    ("txt-encrypt-enabled", Setting),
    ("txt-encrypt-aes-key", Secret),
    ("txt-cache-interval", Idle),
    ("migrate-from-txt-owner", Never("fairway publish take takes records over from another owner")),
];
const RFC2136: &[Flag] = &[
    ("rfc2136-host", Place),
    ("rfc2136-port", Place),
    ("rfc2136-zone", Setting),
    ("rfc2136-insecure", Setting),
    ("rfc2136-tsig-keyname", Setting),
    ("rfc2136-tsig-secret", Secret),
    ("rfc2136-tsig-secret-alg", Setting),
    ("rfc2136-tsig-axfr", Only("true", "the zone is always read by a transfer, signed where there is a key")),
    ("rfc2136-min-ttl", Never("say the TTL at the intent (gslb.ttl)")),
    ("rfc2136-batch-change-size", Never(BATCHES)),
    ("rfc2136-use-tls", Only("false", "updates go over TCP, signed with TSIG")),
    ("rfc2136-skip-tls-verify", Only("false", "updates go over TCP, signed with TSIG")),
    ("rfc2136-gss-tsig", Only("false", "updates are signed with TSIG")),
    ("rfc2136-kerberos-username", Never("updates are signed with TSIG; take it out")),
    ("rfc2136-kerberos-password", Never("updates are signed with TSIG; take it out")),
    ("rfc2136-kerberos-realm", Never("updates are signed with TSIG; take it out")),
    ("rfc2136-load-balancing-strategy", Only("disabled", "a record has one server; make a record of each")),
];
const ANCHORS: &str = "a server is trusted by the certificates that this machine trusts; take it out";
const POWERDNS: &[Flag] = &[
    ("pdns-server", Place),
    ("pdns-api-key", Secret),
    ("pdns-server-id", Only("localhost", "the API calls itself localhost")),
    ("pdns-skip-tls-verify", Only("false", "certificates are always checked")),
    ("tls-ca", Never(ANCHORS)),
    ("tls-client-cert", Never(ANCHORS)),
    ("tls-client-cert-key", Never(ANCHORS)),
];
const ETCD: &[Flag] = &[
    ("etcd-urls", Place),
    ("etcd-username", Setting),
    ("etcd-password", Secret),
    ("etcd-ca-file", Place),
    ("etcd-cert-file", Setting),
    ("etcd-key-file", Secret),
    ("etcd-tls-server-name", Never("a certificate is checked for the host of its URL; write that host")),
    ("etcd-tls-insecure", Only("false", "certificates are always checked")),
    ("coredns-prefix", Setting),
    ("coredns-strictly-owned", Only("false", "the registry says whose a record is")),
];
const WEBHOOK: &[Flag] = &[
    ("webhook-provider-url", Place),
    ("webhook-provider-read-timeout", Setting),
    ("webhook-provider-write-timeout", Setting),
    ("tls-ca", Place),
    ("tls-client-cert", Setting),
    ("tls-client-cert-key", Secret),
    ("token", Secret),
    ("weights", Setting),
];
const DNSENDPOINT: &[Flag] = &[("folder", Setting), ("namespace", Setting), ("weights", Setting)];
const FILE: &[Flag] = &[("path", Setting)];

const SPOKEN: &[Spoken] = &[
    Spoken {
        native: Native::DnsEndpoint,
        provider: "dnsendpoint",
        prefixes: &["dnsendpoint-"],
        tables: &[DNSENDPOINT, COMMON],
    },
    Spoken {
        native: Native::Etcd,
        provider: "etcd",
        prefixes: &["etcd-", "coredns-"],
        tables: &[ETCD, COMMON, REGISTRY],
    },
    Spoken { native: Native::File, provider: "file", prefixes: &["file-"], tables: &[FILE, COMMON, REGISTRY] },
    Spoken {
        native: Native::PowerDns,
        provider: "powerdns",
        prefixes: &["pdns-"],
        tables: &[POWERDNS, COMMON, REGISTRY],
    },
    Spoken {
        native: Native::Rfc2136,
        provider: "rfc2136",
        prefixes: &["rfc2136-"],
        tables: &[RFC2136, COMMON, REGISTRY],
    },
    Spoken {
        native: Native::Webhook,
        provider: "webhook",
        prefixes: &["webhook-provider-"],
        tables: &[WEBHOOK, COMMON, REGISTRY],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_known_with_its_prefix_and_without_in_any_case() {
        let spoken = Spoken::of("rfc2136").unwrap();
        for called in ["rfc2136-host", "RFC2136-Host", "host"] {
            assert_eq!(spoken.flag(called), Some(("rfc2136-host", Place)), "{called}");
        }
        assert_eq!(Spoken::of("etcd").unwrap().flag("prefix"), Some(("coredns-prefix", Setting)));
        assert_eq!(spoken.flag("pdns-server"), None);
        assert!(Spoken::of("aws").is_none());
    }

    #[test]
    fn what_is_said_of_each_provider_is_said_once() {
        for spoken in SPOKEN {
            let flags: Vec<_> = spoken.flags().map(|(flag, _)| flag).collect();
            let different: std::collections::BTreeSet<_> = flags.iter().collect();
            assert_eq!(flags.len(), different.len(), "{}", spoken.provider);
        }
    }

    #[test]
    fn secrets_are_those_of_the_tables_and_of_what_is_refused() {
        for (provider, parameter, is) in [
            ("rfc2136", "tsig-secret", true),
            ("rfc2136", "rfc2136-kerberos-password", true),
            ("rfc2136", "rfc2136-tsig-keyname", false),
            ("webhook", "tls-client-cert-key", true),
            ("webhook", "some-token", true),
            ("etcd", "etcd-urls", false),
            ("akamai", "akamai-client-token", true),
            ("aws", "aws-zone-type", false),
        ] {
            assert_eq!(is_secret(provider, parameter), is, "{provider} {parameter}");
        }
    }
}
