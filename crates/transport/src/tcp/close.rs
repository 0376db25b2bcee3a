//! Why connections end: a closed set, counted one by one.

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// The client closed it, and had all answers.
    Client,
    /// No message for the idle time.
    Idle,
    /// A message was not whole in time.
    SlowMessage,
    /// Answers were not taken in time.
    SlowReader,
    /// A length that no message has.
    Length,
    /// It was the idlest when a newcomer needed its place.
    Evicted,
    /// Reset, or any other error of the network.
    Error,
    /// The server ends.
    Stopped,
}

impl Close {
    /// All of them, in the order they are declared.
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

    /// The word for it in metrics.
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
