//! Rows of the webhook's clients: how they are stored, what they mean, whose they are, and what those of one name declare together.
//!
//! Withdrawals are weighed here, too. Pure: the rows, what files and objects declare, grants, health and time are arguments.
#![forbid(unsafe_code)]

mod changes;
mod contributed;
mod foreign;
mod held;
mod keys;
mod leases;
mod merge_rows;
mod names;
mod owners;
mod read;
mod rows_wire;

pub use fairway_config::WithdrawalSettings;

pub use self::{
    changes::{RowChange, RowChanges},
    contributed::{Contributed, RejectedNames},
    foreign::{ForeignWrites, Refused},
    held::{ClientRows, Evidence, NAMES_MAX, Release, Releases, WINDOW, Weighing, are_many},
    keys::{part_key, scope_name, scope_of, seen_key, tenant_of},
    leases::{LeaseWeights, lease_weight},
    merge_rows::{DeclaredName, MergeContext, OwnedRow, changed_texts},
    owners::RowOwners,
    read::{Meaning, ReadPart, ReadRow},
    rows_wire::{Held, HoldRule, Part, Row, Withdrawn, read_seen, write_seen},
};
