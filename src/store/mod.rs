//! What must survive a restart: health history and overrides.
