//! Errors of calls.

use tonic::{Code, Status};

use crate::connection::MESSAGE_MAX;

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("etcd at {endpoint} {kind}")]
pub struct Error {
    /// The endpoint that was asked last.
    pub endpoint: String,
    /// Cause.
    pub kind: ErrorKind,
}

/// Cause of a failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No endpoint responded in time. The call may have been carried out or not.
    #[error("is unavailable: {0}")]
    Unavailable(String),
    /// etcd has forgotten the connection's token: it restarted, or the token expired. A new connection gets a new one.
    #[error("is unavailable: {0}")]
    TokenRejected(String),
    /// The user, its password or its permissions do not allow the call.
    #[error(
        "denied access: {0}; check user and password, and that the user may read and write below the configured prefix"
    )]
    Denied(String),
    /// The quota of its database is used up.
    #[error("is full ({0}): compact and defragment it, or raise --quota-backend-bytes, then disarm its alarm")]
    Full(String),
    /// The revision to read at has been compacted.
    #[error("has compacted the revision that was read")]
    Compacted,
    /// The response is over the client's limit: ask for fewer keys.
    #[error("sent a response over {} MiB", MESSAGE_MAX >> 20)]
    TooLong,
    /// It understood the request and did not carry it out.
    #[error("refused the request: {0}")]
    Refused(String),
}

impl ErrorKind {
    /// Returns the error of a stream that etcd closed without a response.
    pub(crate) fn ended(stream: &str) -> Self {
        Self::Unavailable(format!("the {stream} stream ended without an answer"))
    }

    /// True if another attempt may succeed, on this endpoint or another one.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::TokenRejected(_))
    }
}

impl From<Status> for ErrorKind {
    fn from(status: Status) -> Self {
        let reason = status.message().to_owned();
        match status.code() {
            Code::Unauthenticated => Self::TokenRejected(reason),
            Code::InvalidArgument if reason.contains("auth token") => Self::TokenRejected(reason),
            Code::Unavailable
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Unknown
            | Code::Internal
            | Code::Aborted => Self::Unavailable(with_sources(&status)),
            Code::OutOfRange if reason.contains("compacted") => Self::Compacted,
            Code::OutOfRange | Code::ResourceExhausted if reason.contains("message length too large") => Self::TooLong,
            Code::ResourceExhausted if reason.contains("space") => Self::Full(reason),
            Code::PermissionDenied => Self::Denied(reason),
            // etcd has no code of its own for a wrong password and for a missing user.
            Code::InvalidArgument
                if reason.contains("authentication failed") || reason.contains("user name is empty") =>
            {
                Self::Denied(reason)
            }
            _ => Self::Refused(reason),
        }
    }
}

/// Returns an error with its sources. The text of tonic's error is only "transport error"; its source has the cause.
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
        let error = |code, message: &str| ErrorKind::from(Status::new(code, message));
        let reason = || "etcdserver: mvcc: database space exceeded".to_owned();
        assert_eq!(
            error(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            ErrorKind::Compacted
        );
        assert_eq!(error(Code::ResourceExhausted, &reason()), ErrorKind::Full(reason()));
        let too_long = "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes";
        assert_eq!(error(Code::OutOfRange, too_long), ErrorKind::TooLong);
        for message in
            ["etcdserver: authentication failed, invalid user ID or password", "etcdserver: user name is empty"]
        {
            assert!(matches!(error(Code::InvalidArgument, message), ErrorKind::Denied(_)), "{message}");
        }
        assert!(matches!(error(Code::InvalidArgument, "etcdserver: too many operations"), ErrorKind::Refused(_)));
        assert!(matches!(error(Code::Unavailable, "etcdserver: no leader"), ErrorKind::Unavailable(_)));
        let expired = error(Code::Unauthenticated, "etcdserver: invalid auth token");
        assert!(matches!(expired, ErrorKind::TokenRejected(_)), "{expired:?}");
    }

    #[test]
    fn error_names_endpoint_and_cause() {
        let error = Error { endpoint: "http://a:2379".to_owned(), kind: ErrorKind::Full("no space".to_owned()) };
        let text = "etcd at http://a:2379 is full (no space): compact and defragment it, or raise --quota-backend-bytes, then disarm its alarm";
        assert_eq!(error.to_string(), text);
    }
}
