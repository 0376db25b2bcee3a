//! Reasons why connections end, for the counters.

/// Reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed it after it received all answers.
    Client,
    /// No message arrived within the idle timeout.
    Idle,
    /// A message was not complete in time.
    SlowMessage,
    /// The client did not read its answers in time.
    SlowReader,
    /// The length field of a message was shorter than a DNS header.
    Length,
    /// It was the idlest connection when a new one needed its slot.
    Evicted,
    /// Reset, or any other network error.
    Error,
    /// The server stopped.
    Stopped,
}

impl CloseReason {
    /// All reasons, in the order of declaration.
    pub const ALL: [Self; 8] = [
        Self::Client,
        Self::Idle,
        Self::SlowMessage,
        Self::SlowReader,
        Self::Length,
        Self::Evicted,
        Self::Error,
        Self::Stopped,
    ];

    /// Returns the label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Idle => "idle",
            Self::SlowMessage => "slow_message",
            Self::SlowReader => "slow_reader",
            Self::Length => "length",
            Self::Evicted => "evicted",
            Self::Error => "error",
            Self::Stopped => "stopped",
        }
    }
}
