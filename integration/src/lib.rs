//! Shared parts of the tests with the real binary and real parts.
//!
//! [`message`] decodes DNS messages strictly and independently, so that a bug of the server is not also a bug of the test. [`mmdb`]
//! writes small location databases, and [`certificates`] issues certificates. [`real`] starts programs, [`image`] builds the image
//! of the container in a folder, [`cluster`] starts a Kubernetes API with controllers and an external-dns, and [`browser`] a
//! browser; [`load`] sends queries continuously, and [`memory`] limits the memory of a program. [`recipe`] reads and runs tests
//! written as text; `integration/recipes/README.md` shows the format. [`tree`] reads the source tree. Nothing here is part of the
//! server.
#![forbid(unsafe_code)]

pub mod browser;
pub mod certificates;
pub mod cluster;
pub mod gateway;
pub mod image;
pub mod load;
pub mod memory;
pub mod message;
pub mod mmdb;
pub mod present;
pub mod query;
pub mod real;
pub mod recipe;
pub mod tree;
