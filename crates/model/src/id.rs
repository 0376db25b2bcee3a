//! Names of declared objects, as configuration, API and logs use them.

use std::{borrow::Borrow, fmt, sync::Arc};

macro_rules! object_names {
    ($($(#[$doc:meta])* $type:ident: $allowed:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Parses a name.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check(text, $allowed).map(|()| Self(text.into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    )*};
}

// All have 1 to 128 characters: letters, digits and the characters listed here; the first and last is a letter or digit.
object_names! {
    /// The name of a cluster.
    ClusterName: "-_.+";
    /// The name of an object of the intent API. The characters are those of EMCO.
    IntentName: "-_.";
    /// The name of a latency table.
    LatencyTableName: "-_.+";
    /// The name of a load source.
    LoadSourceName: "-_.+";
    /// The name of a map from client addresses to locations.
    MapName: "-_.+";
    /// The name of a monitor.
    MonitorName: "-_.+";
    /// The name of a pool.
    PoolName: "-_.+";
}

/// Error of parsing an object name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty. Has the characters that are allowed besides letters and digits.
    #[error("the name is empty; give 1 to 128 letters, digits, {}", quoted(.0))]
    Empty(&'static str),
    /// Too many characters.
    #[error("the name has {0} characters, over the limit of 128")]
    Long(usize),
    /// A character that is not allowed, or not allowed at an end.
    #[error(
        "the name {name:?} has a character that is not allowed; use letters, digits, {}, with a letter or digit at both ends",
        quoted(.allowed)
    )]
    Character {
        /// The name.
        name: String,
        /// The characters that are allowed besides letters and digits.
        allowed: &'static str,
    },
}

fn check(text: &str, allowed: &'static str) -> Result<(), IdError> {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return Err(IdError::Empty(allowed)) };
    if bytes.len() > 128 {
        return Err(IdError::Long(bytes.len()));
    }
    let inner = |b: &u8| b.is_ascii_alphanumeric() || allowed.as_bytes().contains(b);
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(inner) {
        Ok(())
    } else {
        Err(IdError::Character { name: text.to_owned(), allowed })
    }
}

/// Returns each character in quotes.
fn quoted(characters: &str) -> String {
    characters.chars().map(|character| format!("'{character}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_with_plus_is_accepted() {
        assert_eq!(ClusterName::new("p1+c1").unwrap().as_str(), "p1+c1");
    }

    #[test]
    fn invalid_name_is_rejected_with_its_reason() {
        assert_eq!(PoolName::new(""), Err(IdError::Empty("-_.+")));
        assert_eq!(PoolName::new(&"a".repeat(129)), Err(IdError::Long(129)));
        assert!(matches!(PoolName::new("-a"), Err(IdError::Character { .. })));
        assert!(matches!(PoolName::new("a b"), Err(IdError::Character { .. })));
    }
    #[test]
    fn name_of_an_intent_has_no_plus() {
        assert_eq!(IntentName::new("blue-app_1.0").unwrap().as_str(), "blue-app_1.0");
        assert!(IntentName::new(&"a".repeat(128)).is_ok());
        assert_eq!(IntentName::new(&"a".repeat(129)), Err(IdError::Long(129)));
        let empty = IntentName::new("").unwrap_err().to_string();
        assert_eq!(empty, "the name is empty; give 1 to 128 letters, digits, '-', '_', '.'");
        for odd in ["<>", "-a", "a.", "a b", "a+b", "é"] {
            let error = IntentName::new(odd).unwrap_err().to_string();
            assert!(
                error.ends_with("; use letters, digits, '-', '_', '.', with a letter or digit at both ends"),
                "{error}"
            );
        }
    }
}
