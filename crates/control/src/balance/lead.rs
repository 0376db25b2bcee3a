//! Whose decisions hold where several servers share a store: those of the one that holds the lease of its board, so that all give
//! the same answers. A server that is cut off goes by its own.

use std::sync::Arc;

use fairway_health::balance::Caution;
use fairway_model::Shares;

use fairway_store::{Leadership, decode_decision};

/// Whose decisions hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Lead {
    /// This server's: nobody shares its store.
    #[default]
    Alone,
    /// This server's, and all that share its store follow it.
    Leads,
    /// Those of the server that leads.
    Follows(Shares, Caution),
    /// This server's, and why: nobody leads, or the store is away or refuses.
    Local(Arc<str>),
}

/// Whose decisions hold, for whoever looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decides {
    /// In one word: `alone`, `leads`, `follows` or `local`.
    pub lead: &'static str,
    /// Why this server goes by its own decisions, where it is `local`.
    pub reason: Option<Arc<str>>,
}

impl Lead {
    /// What follows from what is on the board. A decision that is not understood is not followed.
    pub fn of(posted: &Leadership) -> Self {
        let note = match posted {
            Leadership::Vacant => return Self::Local(NOBODY.into()),
            Leadership::Unknown(why) => return Self::Local(Arc::clone(why)),
            Leadership::ThisServer => return Self::Leads,
            Leadership::Other(note) => note,
        };
        match decode_decision(note) {
            Ok((shares, caution)) => Self::Follows(shares, caution),
            Err(why) => Self::Local(format!("what the server that leads decided is not understood: {why}").into()),
        }
    }

    /// In few words.
    pub fn told(&self) -> Decides {
        let (lead, reason) = match self {
            Self::Alone => ("alone", None),
            Self::Leads => ("leads", None),
            Self::Follows(..) => ("follows", None),
            Self::Local(why) => ("local", Some(Arc::clone(why))),
        };
        Decides { lead, reason }
    }
}

const NOBODY: &str = "nobody holds the lease; a server that hears of load takes it";

#[cfg(test)]
mod tests {
    use super::*;
    use fairway_store::encode_decision;

    #[test]
    fn what_another_server_says_is_followed_if_it_is_understood() {
        let shares = Shares { epoch: 3, ..Shares::default() };
        let note = encode_decision(&shares, Caution::Short);
        assert_eq!(Lead::of(&Leadership::Other(note.as_slice().into())), Lead::Follows(shares, Caution::Short));
        let newer = String::from_utf8(note).unwrap().replace("\"version\": 1", "\"version\": 2");
        for odd in [newer.as_bytes(), b"", b"{}"] {
            let Decides { lead, reason } = Lead::of(&Leadership::Other(odd.into())).told();
            assert!(lead == "local" && reason.is_some_and(|why| why.contains("not understood")));
        }
    }

    #[test]
    fn whoever_holds_the_lease_leads_and_where_nobody_does_each_goes_by_its_own() {
        assert_eq!(
            [Leadership::ThisServer, Leadership::Vacant].map(|posted| Lead::of(&posted).told().lead),
            ["leads", "local"]
        );
        assert_eq!(Lead::default().told(), Decides { lead: "alone", reason: None });
        let refused = Lead::of(&Leadership::Unknown("etcd at a: permission denied".into())).told();
        assert_eq!((refused.lead, refused.reason.as_deref()), ("local", Some("etcd at a: permission denied")));
    }
}
