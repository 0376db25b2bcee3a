//! Temporary operator overrides, each with a reason and an expiry.

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use crate::{ClusterName, OverrideKind, PoolName, Timestamp};

/// One override. All its parts are mandatory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Its kind: the clusters with their health, or the pools.
    pub kind: OverrideKind,
    /// The reason, for people who find it later; 1 to 500 characters on one line.
    pub reason: String,
    /// The time at which it expires.
    pub expires: Timestamp,
    /// Its author.
    pub origin: OverrideOrigin,
}

/// The author of an override.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverrideOrigin {
    /// Identity of the caller; `None` for an override of the configuration.
    pub by: Option<String>,
    /// Time of creation; `None` for an override of the configuration.
    pub at: Option<Timestamp>,
    /// Address of the client, `control socket`, or the place in the configuration. Empty if an earlier version added it.
    pub from: String,
}

impl Override {
    /// Longest duration: 30 days. A longer one belongs in the configuration.
    pub const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
    /// Largest number of characters of a reason.
    pub const REASON_MAX: usize = 500;

    /// Returns the override if all parts are within their limits. An expired one is accepted: it has no effect, and a file
    /// that still contains it must not keep a server from starting.
    pub fn new(kind: OverrideKind, reason: &str, expires: Timestamp, now: Timestamp) -> Result<Self, OverrideError> {
        let reason = reason.trim();
        let characters = reason.chars().count();
        if characters == 0 {
            return Err(OverrideError::NoReason);
        }
        if characters > Self::REASON_MAX || reason.chars().any(char::is_control) {
            return Err(OverrideError::Reason(characters));
        }
        if expires.since(now) > Self::DURATION_MAX {
            return Err(OverrideError::Long(expires));
        }
        Ok(Self { kind, reason: reason.to_owned(), expires, origin: OverrideOrigin::default() })
    }

    /// Returns the override with its author.
    pub fn with_origin(self, origin: OverrideOrigin) -> Self {
        Self { origin, ..self }
    }

    /// Returns true if it has not expired.
    pub fn is_active(&self, now: Timestamp) -> bool {
        now < self.expires
    }
}

/// Error of an invalid override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// An empty reason.
    #[error("the override has no reason; give one, for people who find it later")]
    NoReason,
    /// A reason that is too long or has several lines.
    #[error("the reason has {0} characters or several lines; give at most 500 characters on one line")]
    Reason(usize),
    /// Past [`Override::DURATION_MAX`].
    #[error(
        "the override would last until {0}, over the limit of 30 days; give an earlier end, or change the configuration"
    )]
    Long(Timestamp),
}

/// The scope of an override: clusters by glob, and their addresses by glob.
///
/// `eu*`: every address of every cluster whose name begins with `eu`. `eu1/203.0.113.10`: that address of cluster eu1.
/// In a glob, `*` matches any run of characters and `?` one character. A target has one health status, so if clusters or
/// pools share a target (same address, same monitor), the override applies to all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OverrideScope {
    cluster: String,
    address: Option<String>,
}

impl OverrideScope {
    /// Returns the part before the slash: a cluster, or a pattern of clusters.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Returns true if it includes an address of this cluster, or all of them.
    pub fn matches_cluster(&self, cluster: &ClusterName) -> bool {
        glob(self.cluster.as_bytes(), cluster.as_str().as_bytes())
    }

    /// Returns true if it includes all addresses of this cluster, whichever it has.
    pub fn matches_whole(&self, cluster: &ClusterName) -> bool {
        self.address.is_none() && self.matches_cluster(cluster)
    }

    /// Returns true if it includes this address of this cluster.
    pub fn matches(&self, cluster: &ClusterName, address: IpAddr) -> bool {
        let matches = |pattern: &String| glob(pattern.as_bytes(), address.to_string().as_bytes());
        self.matches_cluster(cluster) && self.address.as_ref().is_none_or(matches)
    }
}

impl FromStr for OverrideScope {
    type Err = OverrideScopeError;

    /// Parses `CLUSTER` or `CLUSTER/ADDRESS`, with `*` and `?` in either.
    fn from_str(text: &str) -> Result<Self, OverrideScopeError> {
        let invalid = || OverrideScopeError(text.to_owned());
        let (cluster, address) = match text.split_once('/') {
            None => (text, None),
            Some((cluster, address)) => (cluster, Some(address)),
        };
        if !is_name_pattern(cluster) {
            return Err(invalid());
        }
        let address = address.map(|a| canonical(a).ok_or_else(invalid)).transpose()?;
        Ok(Self { cluster: cluster.to_owned(), address })
    }
}

/// Returns an address in canonical form, in which it is compared; a glob in lower case.
fn canonical(address: &str) -> Option<String> {
    if let Ok(address) = address.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let part = |b: u8| b.is_ascii_hexdigit() || matches!(b, b'.' | b':' | b'*' | b'?');
    let sound = address.contains(['*', '?']) && address.len() <= 64 && address.bytes().all(part);
    sound.then(|| address.to_ascii_lowercase())
}

impl fmt::Display for OverrideScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cluster)?;
        self.address.as_ref().map_or(Ok(()), |address| write!(f, "/{address}"))
    }
}

/// A text that is not an override scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an override scope; write CLUSTER or CLUSTER/ADDRESS, with * for any characters and ? for one: eu* or eu1/203.0.113.10"
)]
pub struct OverrideScopeError(String);

/// A lower limit for overrides: the number of clusters of a pool that they may not take out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideRule {
    /// The pools that it applies to.
    pub pools: Vec<PoolPattern>,
    /// Number of clusters that no override takes out, 1 to 255.
    pub min_clusters: u8,
}

/// A glob of pool names: `*` matches any run of characters and `?` one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolPattern(String);

impl PoolPattern {
    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if it matches this pool.
    pub fn matches(&self, pool: &PoolName) -> bool {
        glob(self.0.as_bytes(), pool.as_str().as_bytes())
    }
}

impl FromStr for PoolPattern {
    type Err = PoolPatternError;

    fn from_str(text: &str) -> Result<Self, PoolPatternError> {
        match is_name_pattern(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(PoolPatternError(text.to_owned())),
        }
    }
}

impl fmt::Display for PoolPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is not a pattern of pool names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a pattern of pool names; write a name, with * for any characters and ? for one: shop or eu-*")]
pub struct PoolPatternError(String);

/// Returns true if a text has the characters of an object's name, `*` and `?` only, and is as short as a name.
fn is_name_pattern(text: &str) -> bool {
    let named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+' | b'*' | b'?');
    (1..=128).contains(&text.len()) && text.bytes().all(named)
}

/// Returns true if `text` matches `pattern`, in which `*` matches any run of bytes and `?` one byte. The time is at most
/// proportional to the product of both lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None; // after the last star: index in the pattern, index in the text
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
        } else if pattern.get(p).is_some_and(|byte| *byte == b'?' || *byte == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((after, taken)) = star {
            // The star matches one byte more, and the rest is tried again.
            star = Some((after, taken + 1));
            (p, t) = (after, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OverrideAction;

    fn scope(text: &str) -> OverrideScope {
        text.parse().unwrap()
    }

    #[test]
    fn scope_matches_clusters_and_addresses_by_glob() {
        let (eu1, us1) = (ClusterName::new("eu1").unwrap(), ClusterName::new("us1").unwrap());
        let (four, six) = ("203.0.113.10".parse().unwrap(), "2001:db8::10".parse().unwrap());
        assert!(scope("eu*").matches(&eu1, four) && !scope("eu*").matches(&us1, four));
        assert!(scope("*1/203.0.113.10").matches(&us1, four) && !scope("eu1/203.0.113.10").matches(&eu1, six));
        assert!(scope("eu1/2001:DB8:0::10").matches(&eu1, six), "addresses are compared in one form");
        assert!(scope("eu1/2001:db8:*").matches(&eu1, six) && !scope("e").matches(&eu1, six));
    }

    #[test]
    fn glob_matches_stars_and_question_marks() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*b*c", "axxbxbc", true),
            ("a*b", "axbx", false),
            ("**a", "ba", true),
            ("?b", "ab", true),
            ("", "a", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn invalid_scope_is_rejected() {
        for text in ["", "/203.0.113.1", "eu 1", "eu1/gateway", "eu1/"] {
            assert!(text.parse::<OverrideScope>().is_err(), "{text}");
        }
    }

    #[test]
    fn override_without_reason_or_over_a_limit_is_rejected() {
        let now = Timestamp::from_secs(1_000);
        let end = now.plus(Override::DURATION_MAX);
        let kind = || OverrideKind::Health { scope: scope("eu1"), action: OverrideAction::Down };
        let new = |reason: &str, end| Override::new(kind(), reason, end, now);
        assert!(new("disk swap", end).is_ok_and(|o| o.is_active(now) && !o.is_active(end)));
        assert_eq!(new(" ", end), Err(OverrideError::NoReason));
        assert_eq!(new("a\nb", end), Err(OverrideError::Reason(3)));
        let late = end.plus(Duration::from_secs(1));
        assert_eq!(new("disk swap", late), Err(OverrideError::Long(late)));
    }
}
