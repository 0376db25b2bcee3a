//! The server whose decisions about load are in force. Servers that share a store elect a leader, so that all of them give the same answers. A
//! server without a connection to the store uses its own decisions.

use std::sync::Arc;

use fairway_model::Shares;
use fairway_steering::balancer::{DemandEvidence, RiskLevel};

use crate::{
    Leadership,
    balance::{decode_decision, decode_evidence},
};

/// The role of this server.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Role {
    /// Its own decisions are in force: no other server shares its store.
    #[default]
    Alone,
    /// Its own decisions are in force, and those that share its store follow them. Holds the evidence of demand that each of these has.
    Leads(Vec<DemandEvidence>),
    /// The decisions of the leader are in force.
    Follows(Shares, RiskLevel),
    /// Its own decisions are in force, for this reason: there is no leader, or the store is unavailable or rejects requests.
    Local(Arc<str>),
}

/// The role of this server, for status and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderStatus {
    /// `alone`, `leads`, `follows` or `local`.
    pub role: &'static str,
    /// The reason for `local`.
    pub reason: Option<Arc<str>>,
}

impl LeaderStatus {
    /// Values of `role`.
    pub const ROLES: [&'static str; 4] = ["alone", "leads", "follows", "local"];
}

impl Role {
    /// Returns the role that follows from the leadership. A decision that cannot be read is not followed, and such evidence does not count:
    /// another version of Fairway wrote it.
    pub fn of(leadership: &Leadership) -> Self {
        let note = match leadership {
            Leadership::Vacant => return Self::Local(NO_LEADER.into()),
            Leadership::Unknown(why) => return Self::Local(Arc::clone(why)),
            Leadership::ThisServer(others) => {
                return Self::Leads(others.iter().filter_map(|text| decode_evidence(text).ok()).collect());
            }
            Leadership::Other(note) => note,
        };
        match decode_decision(note) {
            Ok((shares, level)) => Self::Follows(shares, level),
            Err(error) => Self::Local(format!("the leader's decision cannot be read: {error}").into()),
        }
    }

    /// Returns the evidence of demand of the servers that follow this one.
    pub fn evidence(&self) -> &[DemandEvidence] {
        if let Self::Leads(evidence) = self { evidence } else { &[] }
    }

    /// Returns the status of this role.
    pub fn status(&self) -> LeaderStatus {
        let (role, reason) = match self {
            Self::Alone => ("alone", None),
            Self::Leads(_) => ("leads", None),
            Self::Follows(..) => ("follows", None),
            Self::Local(reason) => ("local", Some(Arc::clone(reason))),
        };
        LeaderStatus { role, reason }
    }
}

const NO_LEADER: &str = "no server holds the lease; the first one with a load report takes it";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode_decision;

    #[test]
    fn decision_of_the_leader_is_followed_if_it_can_be_read() {
        let shares = Shares { epoch: 3, ..Shares::default() };
        let note = encode_decision(&shares, RiskLevel::Short);
        assert_eq!(Role::of(&Leadership::Other(note.as_slice().into())), Role::Follows(shares, RiskLevel::Short));
        let newer = String::from_utf8(note).unwrap().replace("\"version\": 1", "\"version\": 2");
        for invalid in [newer.as_bytes(), b"", b"{}"] {
            let LeaderStatus { role, reason } = Role::of(&Leadership::Other(invalid.into())).status();
            assert!(role == "local" && reason.is_some_and(|reason| reason.contains("cannot be read")));
        }
    }

    #[test]
    fn server_with_the_lease_leads_and_without_a_leader_each_decides_alone() {
        assert_eq!(
            [Leadership::ThisServer(Arc::default()), Leadership::Vacant]
                .map(|leadership| Role::of(&leadership).status().role),
            ["leads", "local"]
        );
        assert_eq!(Role::default().status(), LeaderStatus { role: "alone", reason: None });
        let rejected = Role::of(&Leadership::Unknown("etcd at a: permission denied".into())).status();
        assert_eq!((rejected.role, rejected.reason.as_deref()), ("local", Some("etcd at a: permission denied")));
    }
}
