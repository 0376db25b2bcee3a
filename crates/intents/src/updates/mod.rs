//! Records of where to publish (`dns-update-record`): those of providers that are spoken here become publishers.
//!
//! ```text
//! body ─► DnsUpdateRecord ─► flags (given) ─┬─► where it is (places)   ─┬─► PublishTo, as of the section `publish`
//!                                           └─► what may be done there ─┘
//! ```
//! What a record says is looked through when it is declared; the rest (whose it is, where files go) is known to the server that runs it.
//! Pure. Records of other providers say what they like: `fairway publish flags` renders them.

mod body;
mod given;
mod places;
#[cfg(test)]
mod tests;

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use fairway_model::{Name, Secret, intent::DnsUpdateRecord};
use fairway_providers::{
    publish::{Affix, Bounds, Ownership, Pacing, Policy, Rules, SealKey},
    spoken::Spoken,
};

pub(super) use self::body::{TABLE, read, write};
use self::given::Given;
use super::{certificates::sha256, fault::Refused};
use fairway_config::{PublishTo, Steered, is_owner};

/// Whose a record is, and what the server has that runs it.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The project of the record.
    pub project: &'a str,
    /// Who the server is in registries.
    pub owner: &'a str,
    /// Its data folder.
    pub data_dir: Option<&'a Path>,
}

impl Site<'_> {
    /// Any: for whoever wants to know whether a record can be run at all.
    fn any() -> Self {
        Self { project: "p", owner: "any", data_dir: Some(Path::new("/")) }
    }

    /// The folder of a record's own files: nothing that it says leads out of there.
    fn folder(&self, publisher: &str) -> Option<PathBuf> {
        self.data_dir.map(|folder| folder.join("published").join(publisher))
    }
}

/// What the publisher of a record is called. Names of a configuration have no slash.
pub(crate) fn publisher_name(project: &str, record: &str) -> String {
    format!("{project}/{record}")
}

/// What Kubernetes objects of a publisher are labelled with: at most 57 letters, digits and dashes, another text for each.
pub fn instance(publisher: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let plain: String = publisher.chars().map(plain).take(40).collect();
    format!("{plain}-{}", &sha256(publisher)[..16])
}

/// The place that a record has published to, or all that keeps it from that; none where only ExternalDNS speaks to its provider.
pub fn publish_to(record: &DnsUpdateRecord, site: &Site<'_>) -> Option<Result<PublishTo, Refused>> {
    let mut given = Given::sort(Spoken::of(&record.provider)?, record);
    let to = place(&mut given, publisher_name(site.project, record.metadata.name.as_str()), site);
    let faults = given.into_flaws();
    Some(to.filter(|_| faults.is_empty()).ok_or(Refused { faults, nameless: false }))
}

fn place(given: &mut Given<'_>, name: String, site: &Site<'_>) -> Option<PublishTo> {
    let (zones, within) = zones(given);
    let default = Pacing::default();
    let pacing = Pacing {
        resync: given.duration("interval", &RESYNCS).unwrap_or(default.resync),
        call_gap: given.duration("batch-change-interval", &CALL_GAPS).unwrap_or(default.call_gap),
    };
    let rules = Rules {
        zones,
        policy: given.word("policy", POLICIES).unwrap_or(Policy::Sync),
        ownership: ownership(given, format!("{}/{name}", site.owner)),
        bounds: Bounds::default(),
    };
    check_types(given);
    let without = given.names("exclude-domains");
    let auto = given.switch("dry-run") != Some(true);
    let destination = places::destination(given, site.folder(&name).as_deref());
    Some(PublishTo {
        name,
        rules,
        pacing,
        auto,
        destination: destination?,
        steered: Steered::OfProject { project: site.project.to_owned(), within, without },
        records: false,
        aliases: Vec::new(),
        fixed: Vec::new(),
        served: Vec::new(),
    })
}

/// The zones there, and the domains within them that are meant; none for all.
fn zones(given: &mut Given<'_>) -> (Vec<Name>, Vec<Name>) {
    let domains = given.names("domain-filter");
    if given.knows("rfc2136-zone") && given.has("rfc2136-zone") {
        let zones = given.names("rfc2136-zone");
        if let Some(outside) = domains.iter().find(|domain| !zones.iter().any(|zone| domain.is_within(zone))) {
            let detail = format!("{outside} lies in no zone of rfc2136-zone; name what is in these, or leave it out");
            given.flaw("domain-filter", detail);
        }
        return (zones, domains);
    }
    if !given.has("domain-filter") {
        let flag = if given.knows("rfc2136-zone") { "rfc2136-zone" } else { "domain-filter" };
        given.flaw(flag, "is missing; name the zones there, as example.com, several with commas between");
    }
    (domains, Vec::new())
}

/// What is published are addresses. Who takes others out says nothing; who leaves one out asks for what is not done.
fn check_types(given: &mut Given<'_>) {
    let types = given.list("managed-record-types");
    let has = |rtype: &str| types.iter().any(|of| of.eq_ignore_ascii_case(rtype));
    let has_both = types.is_empty() || (has("A") && has("AAAA"));
    if !has_both {
        given.flaw("managed-record-types", "leaves out A or AAAA, and both are published; name both, or take it out");
    }
}

/// How it is known whose a record is. Objects in a folder are ours as a whole.
fn ownership(given: &mut Given<'_>, own: String) -> Ownership {
    if !given.knows("registry") {
        return Ownership::Whole;
    }
    let other = match given.word("registry", REGISTRIES).unwrap_or(Registry::Txt) {
        Registry::None => Some(Ownership::Unknown),
        Registry::Store => Some(Ownership::Store),
        Registry::Txt => None,
    };
    if let Some(other) = other {
        for flag in TXT.iter().filter(|flag| given.has(flag)).collect::<Vec<_>>() {
            given.flaw(flag, "means nothing without the registry txt; take one of both out");
        }
        return other;
    }
    let owner = given.text("txt-owner-id").map_or(own, str::to_owned);
    if !is_owner(&owner) || owner.len() > OWNER_MAX {
        let detail = format!("{owner:?} cannot stand in a registry record; leave out commas, quotes and equals signs");
        given.flaw("txt-owner-id", detail);
    }
    let text = |flag| given.text(flag).unwrap_or_default();
    let affix = Affix::new(text("txt-prefix"), text("txt-suffix"), text("txt-wildcard-replacement"));
    let affix = affix.unwrap_or_else(|error| {
        let flag = if given.has("txt-prefix") { "txt-prefix" } else { "txt-suffix" };
        given.flaw(flag, format!("{error}; shorten or leave out prefix, suffix and wildcard"));
        Affix::default()
    });
    Ownership::Txt { affix, owner, key: seal_key(given) }
}

/// What registry records are sealed with, where both are said: that they are, and with what.
fn seal_key(given: &mut Given<'_>) -> Option<SealKey> {
    let key = given.text("txt-encrypt-aes-key");
    match (given.switch("txt-encrypt-enabled"), key) {
        (Some(true), Some(key)) => {
            let key = SealKey::new(Secret::new(key));
            key.map_err(|error| given.flaw("txt-encrypt-aes-key", format!("{error}; give that of ExternalDNS"))).ok()
        }
        (Some(true), None) => {
            given.flaw("txt-encrypt-aes-key", "is missing; give the key of ExternalDNS, 32 octets or their base64");
            None
        }
        (_, Some(_)) => {
            given.flaw("txt-encrypt-aes-key", "seals nothing without txt-encrypt-enabled; say that, or take it out");
            None
        }
        (_, None) => None,
    }
}

/// How it is known whose a record is, in words.
#[derive(Clone, Copy, PartialEq)]
enum Registry {
    None,
    Store,
    Txt,
}

const REGISTRIES: &[(&str, Registry)] =
    &[("txt", Registry::Txt), ("store", Registry::Store), ("noop", Registry::None), ("none", Registry::None)];
const POLICIES: &[(&str, Policy)] =
    &[("sync", Policy::Sync), ("upsert-only", Policy::UpsertOnly), ("create-only", Policy::CreateOnly)];
/// Flags of the registry txt.
const TXT: &[&str] = &[
    "txt-owner-id",
    "txt-prefix",
    "txt-suffix",
    "txt-wildcard-replacement",
    "txt-encrypt-enabled",
    "txt-encrypt-aes-key",
];
/// As of the section `publish`.
const RESYNCS: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(86_400);
const CALL_GAPS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(60);
/// Most octets of an owner: that of a configuration, a project and a record, with slashes between.
const OWNER_MAX: usize = 3 * 128 + 2;
