//! Reasons why connections end, for the counters.

use strum::{IntoStaticStr, VariantArray};

/// Reason why a connection ended. Its word is the label value in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
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
    pub const ALL: &[Self] = Self::VARIANTS;
}
