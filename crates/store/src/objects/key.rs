//! Keys of objects: a kind, and the names of the object and its parents.

use std::{fmt, sync::Arc};

use strum::{EnumString, IntoStaticStr, VariantArray};

/// Kind of an object. It determines the number of names in the key, and its word is the first one of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// EMCO: rights of clients of an inbound intent.
    AccessPoint,
    /// EMCO: clients that may call an inbound intent.
    Client,
    /// A cluster, as in a configuration file.
    Cluster,
    /// Several inbound intents under one name, by weight.
    Compound,
    /// EMCO: a controller of the orchestrator.
    Controller,
    /// EMCO: a composite app of a project, in a version.
    CompositeApp,
    /// EMCO: a deployment intent group.
    DeploymentGroup,
    /// ONAP: a destination to publish records to.
    DnsUpdateRecord,
    /// A part of the contribution of a webhook client: its name, and the number of the part.
    Contribution,
    /// Time of the last call of a webhook client.
    Contributor,
    /// An exposed service.
    Inbound,
    /// An inbound intent below a compound one.
    #[strum(serialize = "compound-inbound")]
    InboundOfCompound,
    /// A monitor, as in a configuration file.
    Monitor,
    /// A steered name, as in a configuration file.
    Name,
    /// A used service.
    Outbound,
    /// The server of an outbound intent.
    OutboundServer,
    /// Overrides of all servers on one store, as one object.
    Overrides,
    /// A pool, as in a configuration file.
    Pool,
    /// EMCO: a project.
    Project,
    /// The outcome of a request with an `Idempotency-Key`. The word is that of data folders of earlier versions.
    #[strum(serialize = "receipt")]
    IdempotencyRecord,
    /// Static records of a name, as in a configuration file.
    Records,
    /// Names that one batch removed, for as long as that matters.
    RemovedNames,
    /// EMCO: a traffic group.
    TrafficGroup,
    /// ONAP: a `traffic-intent-set`.
    TrafficSet,
}

impl Kind {
    /// All kinds.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the first word of its keys.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// Returns the number of names in its keys. The names of EMCO objects are project, composite app, version, deployment intent group,
    /// traffic group, and the names below these.
    pub const fn names(self) -> usize {
        match self {
            Self::Cluster
            | Self::Controller
            | Self::Contributor
            | Self::Monitor
            | Self::Name
            | Self::Overrides
            | Self::Pool
            | Self::Project
            | Self::IdempotencyRecord
            | Self::Records
            | Self::RemovedNames => 1,
            Self::DnsUpdateRecord | Self::Contribution => 2,
            Self::CompositeApp => 3,
            Self::DeploymentGroup | Self::TrafficSet => 4,
            Self::TrafficGroup => 5,
            Self::Compound | Self::Inbound | Self::Outbound | Self::OutboundServer => 6,
            Self::Client | Self::InboundOfCompound => 7,
            Self::AccessPoint => 8,
        }
    }
}

/// Key of an object: `KIND/NAME`, or `KIND/NAME/NAME/…` for objects below others. Keys are ordered as their text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Returns the key of a kind with these names, the outermost first.
    ///
    /// A name has 1 to 255 characters of printable ASCII other than `/`.
    pub fn new(kind: Kind, names: &[&str]) -> Result<Self, KeyError> {
        if names.len() != kind.names() {
            return Err(KeyError::Count { kind, names: names.len() });
        }
        check_names(names.iter().copied())?;
        Ok(Self(format!("{}/{}", kind.word(), names.join("/")).into()))
    }

    /// Parses the text of a key.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let (word, rest) = text.split_once('/').unwrap_or((text, ""));
        let Ok(kind) = word.parse::<Kind>() else {
            return Err(KeyError::Kind(word.chars().take(40).collect()));
        };
        let names = rest.split('/').count();
        if names != kind.names() {
            return Err(KeyError::Count { kind, names });
        }
        check_names(rest.split('/'))?;
        Ok(Self(text.into()))
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        let word = self.0.split('/').next().unwrap_or_default();
        word.parse().expect("a key begins with its kind")
    }

    /// Returns the names, the outermost first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }

    /// Returns the name of the object itself.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A prefix of keys: all objects, those of a kind, or those of a kind below an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Returns the prefix of all objects.
    pub const fn everything() -> Self {
        Self(String::new())
    }

    /// Returns the prefix of the objects of a kind with these outer names.
    pub fn new(kind: Kind, names: &[&str]) -> Result<Self, KeyError> {
        if names.len() >= kind.names() {
            return Err(KeyError::Count { kind, names: names.len() });
        }
        check_names(names.iter().copied())?;
        let mut text = format!("{}/", kind.word());
        names.iter().for_each(|name| text.extend([name, "/"]));
        Ok(Self(text))
    }

    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if a key has this prefix.
    pub fn holds(&self, key: &Key) -> bool {
        key.as_str().starts_with(&self.0)
    }
}

fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<(), KeyError> {
    let malformed = names.find(|name| !is_name(name));
    malformed.map_or(Ok(()), |name| Err(KeyError::Name(name.chars().take(40).collect())))
}

fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// Error of a text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too many names, or too few.
    #[error("the key of a {} has {} names, not {names}", .kind.word(), .kind.names())]
    Count {
        /// Kind.
        kind: Kind,
        /// Number of names that were given.
        names: usize,
    },
    /// Not a kind of object.
    #[error("{0:?} is not a kind of object")]
    Kind(String),
    /// A name that cannot be part of a key.
    #[error("{0:?} is not a name: write 1 to 255 printable ASCII characters without '/'")]
    Name(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_has_kind_and_names() {
        let key = Key::new(Kind::CompositeApp, &["p", "app", "v1"]).unwrap();
        assert_eq!(key.as_str(), "composite-app/p/app/v1");
        assert_eq!(Key::parse(key.as_str()), Ok(key.clone()));
        assert_eq!((key.kind(), key.name()), (Kind::CompositeApp, "v1"));
        assert_eq!(key.names().collect::<Vec<_>>(), ["p", "app", "v1"]);
    }

    #[test]
    fn keys_of_earlier_versions_are_parsed() {
        assert_eq!(Key::parse("receipt/a").map(|key| key.kind()), Ok(Kind::IdempotencyRecord));
    }

    #[test]
    fn every_kind_has_a_distinct_word() {
        let words: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| kind.word().parse() == Ok(*kind)));
    }

    #[test]
    fn prefix_holds_objects_below_and_not_names_with_a_common_start() {
        let below = Prefix::new(Kind::CompositeApp, &["p"]).unwrap();
        let key = |project: &str| Key::new(Kind::CompositeApp, &[project, "app", "v1"]).unwrap();
        assert!(below.holds(&key("p")) && Prefix::everything().holds(&key("p")));
        assert!(!below.holds(&key("pp")) && !below.holds(&Key::new(Kind::Pool, &["p"]).unwrap()));
        assert!(Prefix::new(Kind::Pool, &["p"]).is_err());
    }

    #[test]
    fn malformed_key_is_rejected_with_the_reason() {
        let rejected = |text: &str| Key::parse(text).unwrap_err().to_string();
        assert_eq!(rejected("pool"), "\"\" is not a name: write 1 to 255 printable ASCII characters without '/'");
        assert_eq!(rejected("pool/a/b"), "the key of a pool has 1 names, not 2");
        assert_eq!(rejected("puddle/a"), "\"puddle\" is not a kind of object");
        assert!(rejected("pool/a b").contains("\"a b\" is not a name"));
        assert!(Key::new(Kind::Pool, &[&"x".repeat(255)]).is_ok());
        assert!(Key::new(Kind::Pool, &[&"x".repeat(256)]).is_err());
    }
}
