//! The daemon: wiring only. Rooms: `config` reads what is wished for, `control` compiles and swaps it and follows health,
//! `serve` moves packets, `api`, `page` and `cli` show, `access` tells who may do what, `store` keeps what must survive,
//! `intents` takes in what is declared over the paths of ONAP and EMCO,
//! `once` lets writes be sent again,
//! `replay` and `impact` tell what a changed configuration would do, `simulate` plays in virtual time, `demo` plays.
#![forbid(unsafe_code)]

pub mod api;
pub mod cli;
pub mod daemon;
pub mod demo;
pub(crate) mod once;
mod page;
pub mod problem;
