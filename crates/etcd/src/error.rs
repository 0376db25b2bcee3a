//! Why a call failed.

use fairway_http::Url;
use tonic::{Code, Status};

/// Why a call failed, with the endpoint that was asked last.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No endpoint answered in time. What was asked for may have been done, or not.
    #[error("etcd at {endpoint} is unavailable: {reason}")]
    Unavailable {
        /// The endpoint.
        endpoint: String,
        /// Cause.
        reason: String,
    },
    /// The user, its password or its permissions do not allow the call.
    #[error(
        "etcd at {endpoint} denied access: {reason}; check user and password, and that the user may read and write below the \
         configured prefix"
    )]
    Denied {
        /// The endpoint.
        endpoint: String,
        /// Its message.
        reason: String,
    },
    /// The quota of its database is used up.
    #[error(
        "etcd at {endpoint} is full ({reason}): compact and defragment it, or raise --quota-backend-bytes, then disarm its alarm"
    )]
    Full {
        /// The endpoint.
        endpoint: String,
        /// Its message.
        reason: String,
    },
    /// The revision to read at has been compacted.
    #[error("etcd at {endpoint} has compacted the revision that was read")]
    Compacted {
        /// The endpoint.
        endpoint: String,
    },
    /// The answer is longer than the client accepts: ask for fewer keys.
    #[error("etcd at {endpoint} has an answer that is too long to be read")]
    TooLong {
        /// The endpoint.
        endpoint: String,
    },
    /// It understood the request and did not carry it out.
    #[error("etcd at {endpoint} refused the request: {reason}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// Its message.
        reason: String,
    },
}

/// Why one attempt at one endpoint failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another endpoint, or this one later, may answer.
    Unavailable(String),
    /// etcd has forgotten the connection's token: it restarted, or the token expired. A new connection gets a new one.
    TokenRejected(String),
    /// Every endpoint would give this answer.
    Final(Status),
}

impl Failure {
    /// etcd closed a stream without an answer.
    pub(crate) fn ended(stream: &str) -> Self {
        Self::Unavailable(format!("the {stream} stream ended without an answer"))
    }

    pub(crate) fn into_error(self, endpoint: &Url) -> Error {
        let endpoint = endpoint.origin().to_owned();
        let status = match self {
            Self::Unavailable(reason) | Self::TokenRejected(reason) => return Error::Unavailable { endpoint, reason },
            Self::Final(status) => status,
        };
        let reason = status.message().to_owned();
        match status.code() {
            Code::OutOfRange if reason.contains("compacted") => Error::Compacted { endpoint },
            Code::OutOfRange | Code::ResourceExhausted if reason.contains("message length too large") => {
                Error::TooLong { endpoint }
            }
            Code::ResourceExhausted if reason.contains("space") => Error::Full { endpoint, reason },
            Code::PermissionDenied => Error::Denied { endpoint, reason },
            // etcd has no code of its own for a wrong password and for a missing user.
            Code::InvalidArgument
                if reason.contains("authentication failed") || reason.contains("user name is empty") =>
            {
                Error::Denied { endpoint, reason }
            }
            _ => Error::Refused { endpoint, reason },
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unauthenticated => Self::TokenRejected(status.message().to_owned()),
            Code::InvalidArgument if status.message().contains("auth token") => {
                Self::TokenRejected(status.message().to_owned())
            }
            Code::Unavailable
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unknown
            | Code::Internal
            | Code::Aborted => Self::Unavailable(with_sources(&status)),
            _ => Self::Final(status),
        }
    }
}

/// An error with its sources: tonic says "transport error", and only the source says what happened.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_becomes_the_error_that_a_caller_acts_on() {
        let at = || "http://a:2379".to_owned();
        let endpoint: Url = at().parse().unwrap();
        let error = |code, message: &str| Failure::from(Status::new(code, message)).into_error(&endpoint);
        let reason = || "etcdserver: mvcc: database space exceeded".to_owned();
        assert_eq!(
            error(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            Error::Compacted { endpoint: at() }
        );
        assert_eq!(error(Code::ResourceExhausted, &reason()), Error::Full { endpoint: at(), reason: reason() });
        assert_eq!(
            error(Code::OutOfRange, "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes"),
            Error::TooLong { endpoint: at() }
        );
        for message in
            ["etcdserver: authentication failed, invalid user ID or password", "etcdserver: user name is empty"]
        {
            assert!(matches!(error(Code::InvalidArgument, message), Error::Denied { .. }), "{message}");
        }
        assert!(matches!(error(Code::InvalidArgument, "etcdserver: too many operations"), Error::Refused { .. }));
        assert!(matches!(error(Code::Unavailable, "etcdserver: no leader"), Error::Unavailable { .. }));
        let expired = Failure::from(Status::unauthenticated("etcdserver: invalid auth token"));
        assert!(matches!(expired, Failure::TokenRejected(_)), "{expired:?}");
    }
}
