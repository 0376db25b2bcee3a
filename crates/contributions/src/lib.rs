//! Rows of the webhook's clients: how they are stored, what they mean, whose they are, and what those of one name declare together.
//!
//! Pure: the rows, what files and objects declare, grants and time are arguments. Control has the changes of rows, and weighs withdrawals.
#![forbid(unsafe_code)]

mod contributed;
mod keys;
mod leases;
mod merge_rows;
mod names;
mod owners;
mod read;
mod rows_wire;

pub use self::{
    contributed::{Contributed, RejectedNames},
    keys::{part_key, scope_name, scope_of, seen_key, tenant_of},
    leases::{LeaseWeights, lease_weight},
    merge_rows::{DeclaredName, MergeContext, OwnedRow, changed_texts},
    owners::RowOwners,
    read::{Meaning, ReadPart, ReadRow},
    rows_wire::{Held, HoldRule, Part, Row, Withdrawn, read_seen, write_seen},
};
