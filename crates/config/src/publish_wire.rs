//! Publishing to other DNS servers in the file: a section of version 1.

use std::time::Duration;

use fairway_model::{Name, Ttl};
use fairway_providers::publish::Policy;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    bounds_wire::{As, Int, List, Text, Word},
    publish_to_wire::{DnsEndpoints, PowerDns, Rfc2136, SkyDns, WebhookProvider},
    values_access::AccessName,
    values_wire::Reference,
    words::Words,
};

/// Publishing to other DNS servers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Publish {
    /// Owner id in the registries of providers that name none.
    #[schemars(extend("default" = "fairway"))]
    pub(super) owner: Option<Text<1, 128>>,
    /// Providers to publish to.
    #[serde(default)]
    pub(super) providers: Vec<Provider>,
}

/// A provider to publish to. Its kind is the section that it has: `rfc2136`, `powerdns`, `etcd`, `webhook`, `file` or
/// `dnsendpoint`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Provider {
    /// Name of the provider in commands, metrics and logs.
    pub(super) name: As<AccessName>,
    /// Its zones to publish to. Nothing outside them is read or written.
    pub(super) zones: List<As<Name>, 1, 256>,
    /// A server with dynamic updates (RFC 2136) that allows zone transfers.
    pub(super) rfc2136: Option<Rfc2136>,
    /// PowerDNS with its HTTP API.
    pub(super) powerdns: Option<PowerDns>,
    /// The etcd of a CoreDNS or SkyDNS.
    pub(super) etcd: Option<SkyDns>,
    /// A provider with the webhook API of ExternalDNS.
    pub(super) webhook: Option<WebhookProvider>,
    /// Kubernetes objects that ExternalDNS reads (DNSEndpoint), in a cluster or a folder.
    pub(super) dnsendpoint: Option<DnsEndpoints>,
    /// A zone file, which is replaced as a whole; text above Fairway's line in it is kept.
    pub(super) file: Option<Text<1>>,
    /// Allowed changes: all (`sync`), all except deletions (`upsert-only`), or creations only (`create-only`).
    #[schemars(extend("default" = "sync"))]
    pub(super) policy: Option<Word<Policy>>,
    /// Ownership of records.
    #[serde(default)]
    pub(super) registry: Registry,
    /// Limits of the deletions of one sync.
    #[serde(default)]
    pub(super) deletions: Deletions,
    /// True if changes are applied automatically; otherwise `fairway publish apply` applies them.
    #[schemars(extend("default" = true))]
    pub(super) auto: Option<bool>,
    /// Longest time between two reads of the provider's records, 10s to 24h.
    #[schemars(extend("default" = "600s"))]
    pub(super) resync: Option<As<Duration>>,
    /// Shortest time between two calls of the provider, 0s to 60s.
    #[schemars(extend("default" = "100ms"))]
    pub(super) call_gap: Option<As<Duration>>,
    /// True if steered names within the zones are published, with the addresses of all members that can take traffic.
    #[schemars(extend("default" = true))]
    pub(super) steered: Option<bool>,
    /// True if declared record sets within the zones are published.
    #[schemars(extend("default" = false))]
    pub(super) records: Option<bool>,
    /// Additional names that refer to steered names.
    #[serde(default)]
    pub(super) aliases: Vec<Alias>,
    /// Delegations of Fairway's zones in the zones of the provider.
    #[serde(default)]
    pub(super) delegations: Vec<Delegation>,
}

/// Ownership of records.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Registry {
    /// Kind of registry: TXT records next to the published ones, as ExternalDNS writes them (`txt`); notes in the data
    /// folder of this server (`store`); or none (`none`), and then nothing is ever deleted.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "txt"))]
    pub(super) kind: Option<Word<RegistryKind>>,
    /// Owner id in the registry. Default: `publish.owner`.
    pub(super) owner: Option<Text<1, 128>>,
    /// Prefix of the names of TXT records; `%{record_type}` is replaced by the type. Default: the type and a dash.
    pub(super) prefix: Option<Text<1, 100>>,
    /// Suffix of the first label of their names, instead of a prefix.
    pub(super) suffix: Option<Text<1, 100>>,
    /// Encryption key of TXT records (AES-256-GCM): 32 octets or their base64, as for `--txt-encrypt-aes-key` of
    /// ExternalDNS. Unencrypted records are read as well. Default: no encryption.
    pub(super) key: Option<Reference>,
    /// Replacement for a first label `*` in their names. Default: `*` itself.
    pub(super) wildcard: Option<Text<1, 50>>,
}

/// Kind of registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegistryKind {
    /// TXT records next to the published ones.
    Txt,
    /// Notes in the data folder.
    Store,
    /// No registry.
    None,
}

impl Words for RegistryKind {
    const WORDS: &'static [(&'static str, Self)] = &[("txt", Self::Txt), ("store", Self::Store), ("none", Self::None)];
}

/// Largest number of deleted record sets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Deletions {
    /// Largest number of record sets that one sync deletes. Over a limit, nothing is deleted until an operator
    /// confirms it.
    #[schemars(extend("default" = 100))]
    pub(super) max: Option<Int<usize, 0, 1_000_000>>,
    /// Largest part, in per cent, of the owned record sets of the provider; one set may always be deleted.
    #[schemars(extend("default" = 30))]
    pub(super) percent: Option<Int<u8, 0, 100>>,
}

/// A published name that refers to a steered one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Alias {
    /// Published name.
    pub(super) name: As<Name>,
    /// Steered name.
    pub(super) of: As<Name>,
    /// Form: a CNAME, which Fairway answers (`cname`), or the addresses of all members that can take traffic
    /// (`addresses`).
    #[serde(rename = "as")]
    #[schemars(extend("default" = "cname"))]
    pub(super) form: Option<Word<AliasForm>>,
}

/// Form of a published alias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AliasForm {
    /// A CNAME.
    #[default]
    Cname,
    /// The addresses of the members that can take traffic.
    Addresses,
}

impl Words for AliasForm {
    const WORDS: &'static [(&'static str, Self)] = &[("cname", Self::Cname), ("addresses", Self::Addresses)];
}

/// A delegation of a zone of Fairway in its parent zone.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Delegation {
    /// The zone.
    pub(super) zone: As<Name>,
    /// Name servers. Default: those of the zone as served, with their addresses.
    pub(super) servers: Option<List<NameServer, 1, 16>>,
    /// DS records, as `TAG ALGORITHM DIGEST-TYPE DIGEST`. Default: the CDS records of the zone (RFC 7344) if `servers`
    /// is not given either; otherwise none, for an unsigned zone.
    #[serde(default)]
    pub(super) ds: Vec<Text<1, 512>>,
    /// TTL of all its records.
    #[schemars(extend("default" = "1h"))]
    pub(super) ttl: Option<As<Ttl>>,
}

/// A name server of a delegation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NameServer {
    /// Name of the server.
    pub(super) name: As<Name>,
    /// Addresses, published as glue if the name is within the zones of the provider.
    #[serde(default)]
    pub(super) addresses: Vec<As<std::net::IpAddr>>,
}
