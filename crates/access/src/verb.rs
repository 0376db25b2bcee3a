//! Verbs: the permissions of the API.

use std::fmt;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

/// A permission of a role, by its word in configurations and responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Verb {
    /// Delete objects and intents.
    Delete,
    /// Read the state of the server: health, metrics, explanations, changes.
    Observe,
    /// Reload the configuration and publish records; in a project, declare where to publish.
    Operate,
    /// Create and delete overrides.
    Override,
    /// Read objects and intents, with their history.
    Read,
    /// Push load reports and latency tables.
    Report,
    /// Create and change objects and intents.
    Write,
}

impl Verb {
    /// All verbs, in the order of their words.
    pub const ALL: &[Self] = Self::VARIANTS;
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u8);

impl Verbs {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// All verbs.
    pub const ALL: Self = Self((1 << Verb::ALL.len()) - 1);
    /// The verbs that change nothing.
    pub const READ_ONLY: Self = Self::NONE.with(Verb::Observe).with(Verb::Read);

    /// Returns the set with one more verb.
    pub const fn with(self, verb: Verb) -> Self {
        Self(self.0 | 1 << verb as u8)
    }

    /// Returns the union of two sets.
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the verbs that are not in the other set.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the verbs in the order of their words.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.iter().copied().filter(move |verb| self.0 & 1 << *verb as u8 != 0)
    }
}

impl From<Verb> for Verbs {
    fn from(verb: Verb) -> Self {
        Self::NONE.with(verb)
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<I: IntoIterator<Item = Verb>>(verbs: I) -> Self {
        verbs.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().map(Into::into).collect::<Vec<&str>>().join(", "))
    }
}

/// Built-in roles: name and verbs.
pub const BUILT_IN_ROLES: [(&str, Verbs); 4] = [
    ("admin", Verbs::ALL),
    ("editor", Verbs::READ_ONLY.with(Verb::Write).with(Verb::Delete)),
    ("operator", Verbs::READ_ONLY.with(Verb::Operate).with(Verb::Override).with(Verb::Report)),
    ("viewer", Verbs::READ_ONLY),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_shows_its_verbs_by_word() {
        let editor = BUILT_IN_ROLES[1].1;
        assert_eq!(editor.to_string(), "delete, observe, read, write");
        assert_eq!(Verbs::ALL.without(editor).to_string(), "operate, override, report");
        assert!(editor.without(Verbs::ALL).is_empty() && Verbs::ALL.iter().count() == Verb::ALL.len());
        for verb in Verb::ALL {
            assert_eq!(verb.to_string().parse(), Ok(*verb));
        }
        assert!("Write".parse::<Verb>().is_err());
    }
}
