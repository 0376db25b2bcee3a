//! Tests of the whole daemon with real configuration files, and with targets on loopback.

mod balance;
mod daemon;
mod intents;
mod latency;
mod load;
mod objects;
#[path = "../../../crates/control/src/tests/scene.rs"]
mod scene;
mod updates;
mod webhook;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use fairway_config::{Environment, Source};

use self::scene::{ConfigFolder as Scene, PATIENCE, config, gateway, until};
