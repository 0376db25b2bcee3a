//! Names of declared objects, as configuration, API and logs use them.

use std::{borrow::Borrow, fmt, sync::Arc};

macro_rules! object_name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        ///
        /// 1 to 128 characters: letters, digits, `-`, `_`, `.`, `+`; the first and last a letter or digit.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Parses a name.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check(text).map(|()| Self(text.into()))
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
    };
}

object_name! {
    /// The name of a cluster.
    ClusterName
}
object_name! {
    /// The name of a load source.
    LoadSourceName
}

object_name! {
    /// The name of a map from client addresses to locations.
    MapName
}
object_name! {
    /// The name of a monitor.
    MonitorName
}
object_name! {
    /// The name of a pool.
    PoolName
}
object_name! {
    /// The name of a latency table.
    LatencyTableName
}

/// Error of parsing an object name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Empty.
    #[error("the name is empty; give 1 to 128 letters, digits, '-', '_', '.', '+'")]
    Empty,
    /// Too many characters.
    #[error("the name has {0} characters, over the limit of 128")]
    Long(usize),
    /// A character that is not allowed, or not allowed at an end.
    #[error(
        "the name {0:?} has a character that is not allowed; use letters, digits, '-', '_', '.', '+', with a letter or digit at both ends"
    )]
    Character(String),
}

fn check(text: &str) -> Result<(), IdError> {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return Err(IdError::Empty) };
    if bytes.len() > 128 {
        return Err(IdError::Long(bytes.len()));
    }
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+');
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() && bytes.iter().all(inner) {
        Ok(())
    } else {
        Err(IdError::Character(text.to_owned()))
    }
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
        assert_eq!(PoolName::new(""), Err(IdError::Empty));
        assert_eq!(PoolName::new(&"a".repeat(129)), Err(IdError::Long(129)));
        assert!(matches!(PoolName::new("-a"), Err(IdError::Character(_))));
        assert!(matches!(PoolName::new("a b"), Err(IdError::Character(_))));
    }
}
