//! Probes against small servers that behave and misbehave.
