//! DNS update records (`dns-update-record`): where the names of a project are published.
//!
//! ```text
//! body ─► DnsUpdateRecord ─► parameters (reader) ─► zones, registry, pacing, destination ─► PublishTo, as in the section `publish`
//! ```
//! A record of a provider that Fairway runs itself becomes a publisher. Its parameters are checked when it is declared; its owner and
//! its folder are added by the server that runs it. Parameters of other providers are not checked; `fairway publish flags` prints them.
//! All of it is pure.

mod body;
mod destination;
mod mapping;
mod reader;
#[cfg(test)]
mod tests;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use fairway_model::{Name, Secret, intent::DnsUpdateRecord};
use fairway_providers::publish::{Affix, Bounds, Ownership, Pacing, Policy, Rules, SealKey};

pub(super) use self::body::fields;
pub use self::mapping::is_secret_name;
use self::{mapping::Provider, reader::ParameterReader};
use super::{
    certificates::sha256,
    error::InvalidBody,
    values::{FLAG, Span, Words},
};
use fairway_config::{PublishTo, Steered, is_owner};

/// The names of a record, and the server that runs it.
#[derive(Clone, Copy, Debug)]
pub struct PublisherContext<'a> {
    /// The project of the record.
    pub project: &'a str,
    /// The name of the record.
    pub record: &'a str,
    /// The owner id of the server in registries.
    pub owner: &'a str,
    /// The data folder of the server; `None` if it has none.
    pub data_dir: Option<&'a Path>,
    /// The zones that the server answers, for a record that names none; `None` to validate a record, wherever it runs.
    pub zones: Option<&'a [Name]>,
}

impl PublisherContext<'_> {
    /// Returns a context for validation, in which every valid record can run.
    fn any() -> Self {
        Self { project: "p", record: "r", owner: "any", data_dir: Some(Path::new("/")), zones: None }
    }

    /// Returns the folder of a record's files. No parameter leads out of it.
    fn folder(&self, publisher: &str) -> Option<PathBuf> {
        self.data_dir.map(|folder| folder.join("published").join(publisher))
    }
}

/// Returns the label of a publisher's Kubernetes objects: at most 57 letters, digits and dashes, unique per publisher.
///
/// A label value has at most 63 characters; the publisher's name is cut to 40 and 16 digits of its SHA-256 follow.
pub fn instance(publisher: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let plain: String = publisher.chars().map(plain).take(40).collect();
    format!("{plain}-{}", &sha256(publisher)[..16])
}

/// Returns the publisher of a record, or its errors. Returns `None` if only external-dns supports the provider.
pub fn publish_to(record: &DnsUpdateRecord, context: &PublisherContext<'_>) -> Option<Result<PublishTo, InvalidBody>> {
    let mut reader = ParameterReader::new(Provider::of(&record.provider)?, record);
    let to = publisher(&mut reader, format!("{}/{}", context.project, context.record), context);
    let errors = reader.into_errors();
    Some(to.filter(|_| errors.is_empty()).ok_or(InvalidBody { errors, nameless: false }))
}

fn publisher(reader: &mut ParameterReader<'_>, name: String, context: &PublisherContext<'_>) -> Option<PublishTo> {
    let (zones, within) = zones(reader, context.zones);
    let default = Pacing::default();
    let pacing = Pacing {
        resync: reader.read("interval", &Span(RESYNCS)).unwrap_or(default.resync),
        call_gap: reader.read("batch-change-interval", &Span(CALL_GAPS)).unwrap_or(default.call_gap),
    };
    let rules = Rules {
        zones,
        policy: reader.read("policy", &POLICIES).unwrap_or(Policy::Sync),
        ownership: ownership(reader, format!("{}/{name}", context.owner)),
        bounds: Bounds::default(),
    };
    check_types(reader);
    let without = reader.names("exclude-domains");
    let auto = reader.read("dry-run", &FLAG) != Some(true);
    let destination = destination::destination(reader, context.folder(&name).as_deref());
    Some(PublishTo {
        name,
        rules,
        pacing,
        auto,
        destination: destination?,
        steered: Steered::OfProject { project: context.project.to_owned(), within, without },
        records: false,
        aliases: Vec::new(),
        fixed: Vec::new(),
        served: Vec::new(),
    })
}

/// Returns the zones at the provider, and the domains in them whose names are published; none for all. Without parameters for them
/// they are the server's own: only names in these are published anyway.
fn zones(reader: &mut ParameterReader<'_>, served: Option<&[Name]>) -> (Vec<Name>, Vec<Name>) {
    let domains = reader.names("domain-filter");
    if reader.has_parameter("rfc2136-zone") && reader.is_given("rfc2136-zone") {
        let zones = reader.names("rfc2136-zone");
        if let Some(outside) = domains.iter().find(|domain| !zones.iter().any(|zone| domain.is_within(zone))) {
            let detail = format!(
                "{outside} is in no zone of rfc2136-zone; name domains in these zones, or remove domain-filter"
            );
            reader.error("domain-filter", detail);
        }
        return (zones, domains);
    }
    if reader.is_given("domain-filter") {
        return (domains, Vec::new());
    }
    if reader.has_parameter("rfc2136-zone") {
        // A server takes updates of the zones that it is configured for only.
        reader.error("rfc2136-zone", "is missing; name the zones there, such as example.com, separated by commas");
    }
    (served.unwrap_or_default().to_vec(), Vec::new())
}

/// Rejects a list of record types without A or AAAA, since both are published. Other types in the list have no effect.
fn check_types(reader: &mut ParameterReader<'_>) {
    let types = reader.list("managed-record-types");
    let has = |rtype: &str| types.iter().any(|of| of.eq_ignore_ascii_case(rtype));
    let has_both = types.is_empty() || (has("A") && has("AAAA"));
    if !has_both {
        reader.error("managed-record-types", "excludes A or AAAA, and both are published; name both, or remove it");
    }
}

/// Returns the registry: the proof of which records are ours. Providers without one (`dnsendpoint`) own everything in their folder.
fn ownership(reader: &mut ParameterReader<'_>, own: String) -> Ownership {
    if !reader.has_parameter("registry") {
        return Ownership::Whole;
    }
    let other = match reader.read("registry", &REGISTRIES).unwrap_or(Registry::Txt) {
        Registry::None => Some(Ownership::Unknown),
        Registry::Store => Some(Ownership::Store),
        Registry::Txt => None,
    };
    if let Some(other) = other {
        for name in TXT.iter().filter(|name| reader.is_given(name)).collect::<Vec<_>>() {
            reader.error(name, "has no effect without the registry txt; remove one of them");
        }
        return other;
    }
    let owner = reader.text("txt-owner-id").map_or(own, str::to_owned);
    if !is_owner(&owner) || owner.len() > OWNER_MAX {
        let detail = format!("{owner:?} cannot be part of a registry record; use no commas, quotes or equals signs");
        reader.error("txt-owner-id", detail);
    }
    let text = |name| reader.text(name).unwrap_or_default();
    let affix = Affix::new(text("txt-prefix"), text("txt-suffix"), text("txt-wildcard-replacement"));
    let affix = affix.unwrap_or_else(|error| {
        let name = if reader.is_given("txt-prefix") { "txt-prefix" } else { "txt-suffix" };
        reader.error(name, format!("{error}; shorten or remove prefix, suffix and wildcard replacement"));
        Affix::default()
    });
    Ownership::Txt { affix, owner, key: seal_key(reader) }
}

/// Returns the key that encrypts registry records, if encryption is enabled and the key is given.
fn seal_key(reader: &mut ParameterReader<'_>) -> Option<SealKey> {
    let key = reader.text("txt-encrypt-aes-key");
    match (reader.read("txt-encrypt-enabled", &FLAG), key) {
        (Some(true), Some(key)) => {
            let key = SealKey::new(Secret::new(key));
            key.map_err(|error| reader.error("txt-encrypt-aes-key", format!("{error}; give the key of external-dns")))
                .ok()
        }
        (Some(true), None) => {
            reader.error("txt-encrypt-aes-key", "is missing; give the key of external-dns, 32 bytes or their base64");
            None
        }
        (_, Some(_)) => {
            reader.error(
                "txt-encrypt-aes-key",
                "has no effect without txt-encrypt-enabled; set that to true, or remove the key",
            );
            None
        }
        (_, None) => None,
    }
}

/// Words of the parameter `registry`.
#[derive(Clone, Copy, PartialEq)]
enum Registry {
    None,
    Store,
    Txt,
}

const REGISTRIES: Words<Registry> =
    Words(&[("txt", Registry::Txt), ("store", Registry::Store), ("noop", Registry::None), ("none", Registry::None)]);
const POLICIES: Words<Policy> =
    Words(&[("sync", Policy::Sync), ("upsert-only", Policy::UpsertOnly), ("create-only", Policy::CreateOnly)]);
/// Parameters of the registry txt.
const TXT: &[&str] = &[
    "txt-owner-id",
    "txt-prefix",
    "txt-suffix",
    "txt-wildcard-replacement",
    "txt-encrypt-enabled",
    "txt-encrypt-aes-key",
];
// Ranges as in the section `publish`.
const RESYNCS: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(86_400);
const CALL_GAPS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
/// Maximum number of bytes of an owner: the owner of the configuration, a project and a record, of 128 each, separated by slashes.
const OWNER_MAX: usize = 3 * 128 + 2;
