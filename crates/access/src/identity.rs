//! Identities of callers, and the subjects that grants name.

use std::{fmt, str::FromStr};

/// A name of a caller, to which a grant is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// Every caller, authenticated or not: `anyone`.
    Anyone,
    /// The holder of a certificate with this URI, DNS name or fingerprint: `certificate:spiffe://corp/ci`.
    Certificate(String),
    /// The members of an issuer's group: `group:ISSUER:GROUP`.
    Group(String, String),
    /// The subject of an issuer's token: `jwt:ISSUER:SUBJECT`.
    Jwt(String, String),
    /// The holder of a token by its name: `token:NAME`.
    Token(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anyone => f.write_str("anyone"),
            Self::Certificate(name) => write!(f, "certificate:{name}"),
            Self::Group(issuer, group) => write!(f, "group:{issuer}:{group}"),
            Self::Jwt(issuer, subject) => write!(f, "jwt:{issuer}:{subject}"),
            Self::Token(name) => write!(f, "token:{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text == "anyone" {
            return Ok(Self::Anyone);
        }
        let (kind, rest) = text.split_once(':').filter(|(_, rest)| is_plain(rest)).ok_or(())?;
        let pair = || {
            let (issuer, name) =
                rest.split_once(':').filter(|(issuer, name)| !issuer.is_empty() && !name.is_empty())?;
            Some((issuer.to_owned(), name.to_owned()))
        };
        match kind {
            "certificate" => Ok(Self::Certificate(rest.to_owned())),
            "group" => pair().map(|(issuer, group)| Self::Group(issuer, group)).ok_or(()),
            "jwt" => pair().map(|(issuer, subject)| Self::Jwt(issuer, subject)).ok_or(()),
            "token" => Ok(Self::Token(rest.to_owned())),
            _ => Err(()),
        }
    }
}

/// Returns true if a name has 1 to 2,048 bytes and no control characters, so that it fits into a log line.
pub(super) fn is_plain(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A user of this machine, who may do everything: over the control socket, or on loopback if authentication is not configured.
    Local(String),
    /// A caller without credentials.
    Nobody,
    /// An authenticated caller: the first subject is shown in logs, the others are further names and groups.
    Known(Vec<Subject>),
}

impl Identity {
    /// Returns an authenticated identity. The first subject is the one that is shown.
    pub fn known(names: impl IntoIterator<Item = Subject>) -> Self {
        Self::Known(names.into_iter().collect())
    }

    /// Returns true if a grant to this subject applies to the caller.
    pub(super) fn is(&self, subject: &Subject) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Nobody => *subject == Subject::Anyone,
            Self::Known(names) => *subject == Subject::Anyone || names.contains(subject),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(who) => f.write_str(who),
            Self::Nobody => f.write_str("nobody"),
            Self::Known(names) => match names.first() {
                Some(name) => name.fmt(f),
                None => f.write_str("nobody"),
            },
        }
    }
}

/// Maximum number of bytes of one name: a SPIFFE ID has up to 2,048 (SPIFFE-ID section 2.3).
const NAME_MAX: usize = 2_048;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_is_parsed_from_its_text() {
        for text in
            ["anyone", "token:ci", "certificate:spiffe://corp/ci", "jwt:corp:alice@corp.example", "group:corp:sre:eu"]
        {
            assert_eq!(text.parse::<Subject>().map(|subject| subject.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "ci", "token:", "user:ci", "jwt:corp", "jwt::alice", "group:corp:", "token:a\nb"] {
            assert_eq!(text.parse::<Subject>(), Err(()), "{text:?}");
        }
    }
}
