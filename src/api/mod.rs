//! The HTTP listener: health, metrics, state, explain.
