//! What an operator says over the probes, for a while and with a reason.

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use crate::{ClusterName, OverrideAction, Timestamp};

/// One override: a scope, a word, a reason, an end. All four are mandatory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// What it holds for.
    pub scope: OverrideScope,
    /// What is said.
    pub forced: OverrideAction,
    /// Why, for whoever finds it later; 1 to 500 characters of one line.
    pub reason: String,
    /// When it ends by itself.
    pub expires: Timestamp,
}

impl Override {
    /// The longest an override may hold: 30 days. What should hold longer belongs into the configuration.
    pub const HOLD_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
    /// Most characters of a reason.
    pub const REASON_MAX: usize = 500;

    /// Joins the four if they are within their bounds. One that has already expired is accepted: it says nothing any more,
    /// and a file that still holds it must not keep a server from starting.
    pub fn new(
        scope: OverrideScope,
        forced: OverrideAction,
        reason: &str,
        expires: Timestamp,
        now: Timestamp,
    ) -> Result<Self, OverrideError> {
        let reason = reason.trim();
        let characters = reason.chars().count();
        if characters == 0 {
            return Err(OverrideError::NoReason);
        }
        if characters > Self::REASON_MAX || reason.chars().any(char::is_control) {
            return Err(OverrideError::Reason(characters));
        }
        if expires.since(now) > Self::HOLD_MAX {
            return Err(OverrideError::Long(expires));
        }
        Ok(Self { scope, forced, reason: reason.to_owned(), expires })
    }

    /// Whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        now < self.expires
    }
}

/// Why an override is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// Nothing in it, or nothing but spaces.
    #[error("an override needs a reason; say why, for whoever finds it later")]
    NoReason,
    /// Too long, or not one line.
    #[error("the reason has {0} characters or is not one line; 500 characters of one line are the most")]
    Reason(usize),
    /// Past [`Override::HOLD_MAX`].
    #[error(
        "the override would hold until {0}; 30 days from now is the most; what should hold longer belongs into the pool"
    )]
    Long(Timestamp),
}

/// What an override holds for: clusters by glob, and addresses of them by glob.
///
/// `eu*`: every address of every cluster whose name begins with `eu`. `eu1/203.0.113.10`: that address of cluster eu1.
/// In a glob `*` stands for any run of characters and `?` for one; nothing else is special. Health is one word a target, so where two
/// clusters or pools share a target (same address, same monitor), it is forced for all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OverrideScope {
    cluster: String,
    address: Option<String>,
}

impl OverrideScope {
    /// Whether it holds for this address of this cluster.
    pub fn matches(&self, cluster: &ClusterName, address: IpAddr) -> bool {
        let holds = |pattern: &String| glob(pattern.as_bytes(), address.to_string().as_bytes());
        glob(self.cluster.as_bytes(), cluster.as_str().as_bytes()) && self.address.as_ref().is_none_or(holds)
    }
}

impl FromStr for OverrideScope {
    type Err = OverrideScopeError;

    /// Reads `CLUSTER` or `CLUSTER/ADDRESS`, with `*` and `?` in either.
    fn from_str(text: &str) -> Result<Self, OverrideScopeError> {
        let fault = || OverrideScopeError(text.to_owned());
        let (cluster, address) = match text.split_once('/') {
            None => (text, None),
            Some((cluster, address)) => (cluster, Some(address)),
        };
        let named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+' | b'*' | b'?');
        if cluster.is_empty() || cluster.len() > 128 || !cluster.bytes().all(named) {
            return Err(fault());
        }
        let address = address.map(|a| canonical(a).ok_or_else(fault)).transpose()?;
        Ok(Self { cluster: cluster.to_owned(), address })
    }
}

/// An address in the one form it is compared in; a glob as it is.
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

/// A text that is no scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no scope; write CLUSTER or CLUSTER/ADDRESS, with * for any run of characters and ? for one: eu* or eu1/203.0.113.10"
)]
pub struct OverrideScopeError(String);

/// Whether `text` fits `pattern`, in which `*` stands for any run of octets and `?` for one. Linear in the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None; // after the last star: place in the pattern, place in the text
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
        } else if pattern.get(p).is_some_and(|octet| *octet == b'?' || *octet == text[t]) {
            (p, t) = (p + 1, t + 1);
        } else if let Some((after, taken)) = star {
            // The star takes one octet more, and the rest is tried again.
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

    fn scope(text: &str) -> OverrideScope {
        text.parse().unwrap()
    }

    #[test]
    fn scopes_take_clusters_and_addresses_by_glob() {
        let (eu1, us1) = (ClusterName::new("eu1").unwrap(), ClusterName::new("us1").unwrap());
        let (four, six) = ("203.0.113.10".parse().unwrap(), "2001:db8::10".parse().unwrap());
        assert!(scope("eu*").matches(&eu1, four) && !scope("eu*").matches(&us1, four));
        assert!(scope("*1/203.0.113.10").matches(&us1, four) && !scope("eu1/203.0.113.10").matches(&eu1, six));
        assert!(scope("eu1/2001:DB8:0::10").matches(&eu1, six), "addresses are compared in one form");
        assert!(scope("eu1/2001:db8:*").matches(&eu1, six) && !scope("e").matches(&eu1, six));
    }

    #[test]
    fn globs_match_as_their_stars_allow() {
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
    fn what_is_no_scope_is_refused() {
        for text in ["", "/203.0.113.1", "eu 1", "eu1/gateway", "eu1/"] {
            assert!(text.parse::<OverrideScope>().is_err(), "{text}");
        }
    }

    #[test]
    fn reason_and_end_are_mandatory_and_bounded() {
        let now = Timestamp::from_secs(1_000);
        let end = now.plus(Override::HOLD_MAX);
        let new = |reason: &str, end| Override::new(scope("eu1"), OverrideAction::Down, reason, end, now);
        assert!(new("disk swap", end).is_ok_and(|o| o.holds(now) && !o.holds(end)));
        assert_eq!(new(" ", end), Err(OverrideError::NoReason));
        assert_eq!(new("a\nb", end), Err(OverrideError::Reason(3)));
        let late = end.plus(Duration::from_secs(1));
        assert_eq!(new("disk swap", late), Err(OverrideError::Long(late)));
    }
}
