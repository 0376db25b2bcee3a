//! Whose decisions hold where several servers share a store: those of the one that holds the lease of its board, so that all give
//! the same answers. A server that is cut off goes by its own.

use fairway_health::balance::Caution;
use fairway_model::Shares;

use crate::store::{Posted, decode_decision};

/// Whose decisions hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::control) enum Lead {
    /// This server's: nobody shares its store.
    #[default]
    Alone,
    /// This server's, and all that share its store follow it.
    Leads,
    /// Those of the server that leads.
    Follows(Shares, Caution),
    /// This server's: nobody leads, or the store is away.
    Local,
}

impl Lead {
    /// What follows from what is on the board. A decision that is not understood is not followed.
    pub(super) fn of(posted: &Posted) -> Self {
        let note = match posted {
            Posted::Nothing => return Self::Local,
            Posted::Own => return Self::Leads,
            Posted::Of(note) => note,
        };
        match decode_decision(note) {
            Ok((shares, caution)) => Self::Follows(shares, caution),
            Err(why) => {
                tracing::warn!(why, "what the server that leads decided is not understood; this one goes by its own");
                Self::Local
            }
        }
    }

    /// In one word.
    pub(in crate::control) const fn word(&self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Leads => "leads",
            Self::Follows(..) => "follows",
            Self::Local => "local",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::encode_decision;

    #[test]
    fn what_another_server_says_is_followed_if_it_is_understood() {
        let shares = Shares { epoch: 3, ..Shares::default() };
        let note = encode_decision(&shares, Caution::Short);
        assert_eq!(Lead::of(&Posted::Of(note.as_slice().into())), Lead::Follows(shares, Caution::Short));
        let newer = String::from_utf8(note).unwrap().replace("\"version\": 1", "\"version\": 2");
        for odd in [newer.as_bytes(), b"", b"{}"] {
            assert_eq!(Lead::of(&Posted::Of(odd.into())), Lead::Local);
        }
    }

    #[test]
    fn whoever_holds_the_lease_leads_and_where_nobody_does_each_goes_by_its_own() {
        assert_eq!([Posted::Own, Posted::Nothing].map(|posted| Lead::of(&posted).word()), ["leads", "local"]);
        assert_eq!(Lead::default().word(), "alone");
    }
}
