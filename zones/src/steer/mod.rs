//! How a pool chooses: one file a policy, and why it chose.
