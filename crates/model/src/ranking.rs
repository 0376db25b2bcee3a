//! Rankings of a pool's members by the location of a client: their inputs, and the ranks of one location.

mod inputs;
mod rank;

pub use self::{
    inputs::{MemberLocation, RankingInputs},
    rank::{geo, latency, nearest},
};
