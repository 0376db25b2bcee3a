//! Where an object is: its kind, and the names that lead to it.

use std::{fmt, sync::Arc};

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $names:literal;)*) => {
        /// What an object is. The number of names in its key goes with it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $variant,)*
        }

        impl Kind {
            /// Every kind there is.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The word that its keys begin with.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }

            /// How many names its keys have.
            pub const fn names(self) -> usize {
                match self {
                    $(Self::$variant => $names,)*
                }
            }

            /// The kind of a word.
            fn of_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

// The names of EMCO objects: project, composite app, version, deployment-intent-group, traffic group, and what is below.
kinds! {
    /// EMCO: what clients of an inbound intent may do.
    AccessPoint = "access-point", 8;
    /// EMCO: who may call an inbound intent.
    Client = "client", 7;
    /// A cluster, as a configuration declares it.
    Cluster = "cluster", 1;
    /// Several inbound intents under one name, by weight.
    Compound = "compound", 6;
    /// EMCO: a controller of the orchestrator.
    Controller = "controller", 1;
    /// EMCO: a composite app of a project, in a version.
    CompositeApp = "composite-app", 3;
    /// EMCO: a deployment-intent-group.
    DeploymentGroup = "deployment-group", 4;
    /// Where records are to be published.
    DnsUpdateRecord = "dns-update-record", 2;
    /// A part of what a client of the webhook contributes: its name, and the number of the part.
    Contribution = "contribution", 2;
    /// When a client of the webhook was last heard of.
    Contributor = "contributor", 1;
    /// The outcome of a request with an idempotency key.
    IdempotencyRecord = "idempotency-record", 1;
    /// A service that is exposed.
    Inbound = "inbound", 6;
    /// An inbound intent below a compound one.
    InboundOfCompound = "compound-inbound", 7;
    /// A monitor, as a configuration declares it.
    Monitor = "monitor", 1;
    /// A steered name, as a configuration declares it.
    Name = "name", 1;
    /// A service that is used.
    Outbound = "outbound", 6;
    /// The server of an outbound intent.
    OutboundServer = "outbound-server", 6;
    /// A pool, as a configuration declares it.
    Pool = "pool", 1;
    /// EMCO: a project.
    Project = "project", 1;
    /// Records of a name that are served as they are, as a configuration declares them.
    Records = "records", 1;
    /// EMCO: a traffic group.
    TrafficGroup = "traffic-group", 5;
    /// Intents that belong together (ONAP: `traffic-intent-set`).
    TrafficSet = "traffic-set", 4;
}

/// Where an object is: `KIND/NAME`, or `KIND/NAME/NAME/…` for objects below others. Keys are ordered as their text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of a kind with these names, from the outermost to its own.
    ///
    /// A name has 1 to 255 octets of printable ASCII other than `/`.
    pub fn new(kind: Kind, names: &[&str]) -> Result<Self, KeyError> {
        if names.len() != kind.names() {
            return Err(KeyError::Count { kind, names: names.len() });
        }
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(KeyError::Name((*name).chars().take(40).collect()));
        }
        Ok(Self(format!("{}/{}", kind.word(), names.join("/")).into()))
    }

    /// Takes a key's text apart.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let (word, rest) = text.split_once('/').unwrap_or((text, ""));
        let Some(kind) = Kind::of_word(word) else {
            return Err(KeyError::Kind(word.chars().take(40).collect()));
        };
        let names = rest.split('/').count();
        if names == kind.names() && rest.split('/').all(is_name) {
            return Ok(Self(text.into()));
        }
        Self::new(kind, &rest.split('/').collect::<Vec<_>>())
    }

    /// What the object is.
    pub fn kind(&self) -> Kind {
        let word = self.0.split('/').next().unwrap_or_default();
        Kind::of_word(word).expect("a key begins with its kind")
    }

    /// The names, from the outermost to its own.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').skip(1)
    }

    /// Its own name.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What keys begin with: all objects, those of a kind, or those of a kind below others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prefix(String);

impl Prefix {
    /// Every object.
    pub const fn everything() -> Self {
        Self(String::new())
    }

    /// The objects of a kind whose outer names are these.
    pub fn new(kind: Kind, names: &[&str]) -> Result<Self, KeyError> {
        if names.len() >= kind.names() {
            return Err(KeyError::Count { kind, names: names.len() });
        }
        if let Some(name) = names.iter().find(|name| !is_name(name)) {
            return Err(KeyError::Name((*name).chars().take(40).collect()));
        }
        let mut text = format!("{}/", kind.word());
        names.iter().for_each(|name| text.extend([name, "/"]));
        Ok(Self(text))
    }

    /// What keys begin with, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a key begins so.
    pub fn holds(&self, key: &Key) -> bool {
        key.as_str().starts_with(&self.0)
    }
}

fn is_name(name: &str) -> bool {
    (1..=255).contains(&name.len()) && name.bytes().all(|octet| octet.is_ascii_graphic() && octet != b'/')
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

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Too many names, or too few.
    #[error("a {} is named by {} names, not by {names}", .kind.word(), .kind.names())]
    Count {
        /// What was meant.
        kind: Kind,
        /// How many were given.
        names: usize,
    },
    /// No kind of object.
    #[error("{0:?} is no kind of object")]
    Kind(String),
    /// A name that cannot be part of a key.
    #[error("{0:?} is no name: give 1 to 255 printable ASCII characters without '/'")]
    Name(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_kind_and_names() {
        let key = Key::new(Kind::CompositeApp, &["p", "app", "v1"]).unwrap();
        assert_eq!(key.as_str(), "composite-app/p/app/v1");
        assert_eq!(Key::parse(key.as_str()), Ok(key.clone()));
        assert_eq!((key.kind(), key.name()), (Kind::CompositeApp, "v1"));
        assert_eq!(key.names().collect::<Vec<_>>(), ["p", "app", "v1"]);
    }

    #[test]
    fn every_kind_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.word()).collect();
        assert_eq!(words.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().all(|kind| Kind::of_word(kind.word()) == Some(*kind)));
    }

    #[test]
    fn a_prefix_holds_what_is_below_and_no_name_that_only_begins_alike() {
        let below = Prefix::new(Kind::CompositeApp, &["p"]).unwrap();
        let key = |project: &str| Key::new(Kind::CompositeApp, &[project, "app", "v1"]).unwrap();
        assert!(below.holds(&key("p")) && Prefix::everything().holds(&key("p")));
        assert!(!below.holds(&key("pp")) && !below.holds(&Key::new(Kind::Pool, &["p"]).unwrap()));
        assert!(Prefix::new(Kind::Pool, &["p"]).is_err());
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason() {
        let refused = |text: &str| Key::parse(text).unwrap_err().to_string();
        assert_eq!(refused("pool"), "\"\" is no name: give 1 to 255 printable ASCII characters without '/'");
        assert_eq!(refused("pool/a/b"), "a pool is named by 1 names, not by 2");
        assert_eq!(refused("puddle/a"), "\"puddle\" is no kind of object");
        assert!(refused("pool/a b").contains("\"a b\" is no name"));
        assert!(Key::new(Kind::Pool, &[&"x".repeat(255)]).is_ok());
        assert!(Key::new(Kind::Pool, &[&"x".repeat(256)]).is_err());
    }
}
