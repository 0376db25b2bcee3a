//! Names of declared objects: what a configuration, an API and a log call a cluster, a pool, a monitor.

use std::{borrow::Borrow, fmt, sync::Arc};

macro_rules! object_name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        ///
        /// 1 to 128 characters: letters, digits, `-`, `_`, `.`, `+`; the first and last a letter or digit.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Takes the text if it is a valid name.
            pub fn new(text: &str) -> Result<Self, IdError> {
                check(text).map(|()| Self(text.into()))
            }

            /// The name as text.
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
    /// The name of a source of load.
    LoadSourceName
}

object_name! {
    /// The name of a map from addresses to places.
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
    /// The name of a table of latencies.
    LatencyTableName
}

/// Why a text is no object name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// No character at all.
    #[error("the name is empty; give 1 to 128 letters, digits, '-', '_', '.', '+'")]
    Empty,
    /// Too many characters.
    #[error("the name has {0} characters; 128 is the most")]
    Long(usize),
    /// A character that is not allowed, or not allowed at an end.
    #[error("the name {0:?} is not letters, digits, '-', '_', '.', '+' with a letter or digit at both ends")]
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
    fn names_of_clusters_may_join_provider_and_cluster_by_a_plus() {
        assert_eq!(ClusterName::new("p1+c1").unwrap().as_str(), "p1+c1");
    }

    #[test]
    fn an_empty_a_long_and_an_odd_name_are_refused_each_with_its_reason() {
        assert_eq!(PoolName::new(""), Err(IdError::Empty));
        assert_eq!(PoolName::new(&"a".repeat(129)), Err(IdError::Long(129)));
        assert!(matches!(PoolName::new("-a"), Err(IdError::Character(_))));
        assert!(matches!(PoolName::new("a b"), Err(IdError::Character(_))));
    }
}
