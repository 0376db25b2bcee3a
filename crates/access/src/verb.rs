//! What can be done over the API, in few words.

use std::{fmt, str::FromStr};

/// One thing that a role may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Take objects and intents away.
    Delete,
    /// Add and remove overrides.
    Force,
    /// See what the server does: state, metrics, explanations, what changes.
    Observe,
    /// Have the configuration read anew, and records published; in a project, say where to.
    Operate,
    /// See objects and intents, with their history.
    Read,
    /// Push loads and latencies.
    Report,
    /// Declare objects and intents, or declare them anew.
    Write,
}

impl Verb {
    /// All of them, by their words.
    pub const ALL: [Self; 7] =
        [Self::Delete, Self::Force, Self::Observe, Self::Operate, Self::Read, Self::Report, Self::Write];

    /// The word of it in configurations and answers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Force => "force",
            Self::Observe => "observe",
            Self::Operate => "operate",
            Self::Read => "read",
            Self::Report => "report",
            Self::Write => "write",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Verb {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|verb| verb.word() == text).ok_or(())
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verbs(u8);

impl Verbs {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self((1 << Verb::ALL.len()) - 1);
    /// Those that change nothing.
    pub const SEEING: Self = Self::NONE.with(Verb::Observe).with(Verb::Read);

    /// These and one more.
    pub const fn with(self, verb: Verb) -> Self {
        Self(self.0 | 1 << verb as u8)
    }

    /// These and those.
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These without those.
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// One after the other, by their words.
    pub fn iter(self) -> impl Iterator<Item = Verb> {
        Verb::ALL.into_iter().filter(move |verb| self.0 & 1 << *verb as u8 != 0)
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
        f.write_str(&self.iter().map(Verb::word).collect::<Vec<_>>().join(", "))
    }
}

/// Roles that need no declaration: name and verbs.
pub const BUILT_IN_ROLES: [(&str, Verbs); 4] = [
    ("admin", Verbs::ALL),
    ("editor", Verbs::SEEING.with(Verb::Write).with(Verb::Delete)),
    ("operator", Verbs::SEEING.with(Verb::Force).with(Verb::Operate).with(Verb::Report)),
    ("viewer", Verbs::SEEING),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_into_them_and_name_it_by_word() {
        let editor = BUILT_IN_ROLES[1].1;
        assert_eq!(editor.to_string(), "delete, observe, read, write");
        assert_eq!(Verbs::ALL.without(editor).to_string(), "force, operate, report");
        assert!(editor.without(Verbs::ALL).is_empty() && Verbs::ALL.iter().count() == Verb::ALL.len());
        for verb in Verb::ALL {
            assert_eq!(verb.word().parse(), Ok(verb));
        }
        assert_eq!("Write".parse::<Verb>(), Err(()));
    }
}
