//! How publishing to other DNS servers appears in the file: a section of version 1 in a file of its own.

use std::time::Duration;

use fairway_model::{Name, Ttl};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{Int, List, Text},
    publish_to_wire::{DnsEndpoints, PowerDns, Rfc2136, SkyDns, WebhookProvider},
    values_access::AccessName,
    values_wire::{As, Reference},
};

/// What is published to other DNS servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Publish {
    /// Who we are in the registries of all providers that say nothing else.
    #[schemars(extend("default" = "fairway"))]
    pub(super) owner: Option<Text<1, 128>>,
    /// Where it is published to.
    #[serde(default)]
    pub(super) providers: Vec<Provider>,
}

/// One place that is published to. Its type is the section it has: `rfc2136`, `powerdns`, `etcd`, `webhook`, `file` or
/// `dnsendpoint`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Provider {
    /// What it is called, in commands, metrics and logs.
    pub(super) name: As<AccessName>,
    /// Its zones that are published to. Nothing outside them is read or written.
    pub(super) zones: List<As<Name>, 1, 256>,
    /// A server that takes updates (RFC 2136) and allows transfers.
    pub(super) rfc2136: Option<Rfc2136>,
    /// A PowerDNS with its HTTP API.
    pub(super) powerdns: Option<PowerDns>,
    /// An etcd that CoreDNS reads, or SkyDNS.
    pub(super) etcd: Option<SkyDns>,
    /// A provider that speaks the webhook of ExternalDNS.
    pub(super) webhook: Option<WebhookProvider>,
    /// A folder of Kubernetes objects that ExternalDNS reads (DNSEndpoint).
    pub(super) dnsendpoint: Option<DnsEndpoints>,
    /// A zone file, which is replaced whole; what stands above our line in it stays.
    pub(super) file: Option<Text<1>>,
    /// What may be done: all that is wanted (`sync`), all but deletions (`upsert-only`), or nothing to what is there
    /// (`create-only`).
    #[schemars(extend("default" = "sync"))]
    pub(super) policy: Option<PublishPolicy>,
    /// How it is known which records are ours.
    #[serde(default)]
    pub(super) registry: Registry,
    /// How much one sync may delete.
    #[serde(default)]
    pub(super) deletions: Deletions,
    /// Whether changes are carried out as they come; else `fairway publish apply` does.
    #[schemars(extend("default" = true))]
    pub(super) auto: Option<bool>,
    /// Longest time between two looks at what is there, 10s to 24h.
    #[schemars(extend("default" = "600s"))]
    pub(super) resync: Option<As<Duration>>,
    /// Shortest time between two calls of the provider, 0s to 60s.
    #[schemars(extend("default" = "100ms"))]
    pub(super) call_gap: Option<As<Duration>>,
    /// Whether steered names within the zones are published with the addresses of all members that can take traffic.
    #[schemars(extend("default" = true))]
    pub(super) steered: Option<bool>,
    /// Whether record sets that are declared beside zones are published, where they are within the zones.
    #[schemars(extend("default" = false))]
    pub(super) records: Option<bool>,
    /// Further names that lead to steered ones.
    #[serde(default)]
    pub(super) aliases: Vec<Alias>,
    /// Delegations of our zones in the zones there.
    #[serde(default)]
    pub(super) delegations: Vec<Delegation>,
}

/// What may be done.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(super) enum PublishPolicy {
    /// All that is wanted.
    Sync,
    /// Nothing is deleted.
    UpsertOnly,
    /// Nothing that is there is touched.
    CreateOnly,
}

/// How it is known which records are ours.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Registry {
    /// By TXT records beside them, as ExternalDNS does (`txt`); by notes in the data folder of this server (`store`); or not at
    /// all (`none`): then nothing is ever deleted.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "txt"))]
    pub(super) kind: Option<RegistryKind>,
    /// Who we are in it. Default: `publish.owner`.
    pub(super) owner: Option<Text<1, 128>>,
    /// What TXT records' names begin with; `%{record_type}` stands for the type. Default: none, and the type with a dash.
    pub(super) prefix: Option<Text<1, 100>>,
    /// What the first label of their names ends with, in place of a prefix.
    pub(super) suffix: Option<Text<1, 100>>,
    /// The key that its TXT records are sealed with (AES-256-GCM): 32 octets or their base64, as `--txt-encrypt-aes-key` of ExternalDNS. Plain
    /// ones are read all the same. Default: none, they are plain.
    pub(super) key: Option<Reference>,
    /// What stands for a first label `*` in their names. Default: `*` itself.
    pub(super) wildcard: Option<Text<1, 50>>,
}

/// How ownership is kept.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum RegistryKind {
    /// TXT records.
    Txt,
    /// Notes in the data folder.
    Store,
    /// Not at all.
    None,
}

/// How much one sync may delete; over it, it deletes nothing until an operator says that it is meant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Deletions {
    /// Most record sets.
    #[schemars(extend("default" = 100))]
    pub(super) max: Option<Int<u32, 0, 1_000_000>>,
    /// Most of all that is ours there, in percent; one set may always go.
    #[schemars(extend("default" = 30))]
    pub(super) percent: Option<Int<u8, 0, 100>>,
}

/// A name there that leads to a steered one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Alias {
    /// The name there.
    pub(super) name: As<Name>,
    /// The steered name.
    pub(super) of: As<Name>,
    /// A CNAME, which our servers then answer (`cname`), or the addresses of all members that can take traffic (`addresses`).
    #[serde(rename = "as")]
    #[schemars(extend("default" = "cname"))]
    pub(super) form: Option<AliasForm>,
}

/// How an alias is published.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum AliasForm {
    /// A CNAME.
    Cname,
    /// Addresses.
    Addresses,
}

/// A zone of ours, as its parent delegates it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Delegation {
    /// The zone.
    pub(super) zone: As<Name>,
    /// Its name servers. Default: those of the zone as we serve it, with the addresses that we answer for them.
    pub(super) servers: Option<List<NameServer, 1, 16>>,
    /// DS records, as `TAG ALGORITHM DIGEST-TYPE DIGEST`. Default: what the zone says of its keys (CDS, RFC 7344) where its name servers
    /// are left out, too; else none, an unsigned zone.
    #[serde(default)]
    pub(super) ds: Vec<Text<1, 512>>,
    /// TTL of all of it.
    #[schemars(extend("default" = "1h"))]
    pub(super) ttl: Option<As<Ttl>>,
}

/// A name server of a delegation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NameServer {
    /// Its name.
    pub(super) name: As<Name>,
    /// Its addresses, published as glue where its name is within the zones there.
    #[serde(default)]
    pub(super) addresses: Vec<As<std::net::IpAddr>>,
}
