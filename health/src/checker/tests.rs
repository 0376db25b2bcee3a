//! The loop in paused time.
