//! Generates the messages and clients of etcd's API, `src/etcdserverpb.rs`, from `proto/etcd.proto`. From the root of the repository:
//!
//! ```text
//! cargo run --manifest-path crates/etcd/generate/Cargo.toml && cargo fmt -p fairway-etcd
//! ```

use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the generator lies in the package");
    let descriptors = protox::compile(["etcd.proto"], [package.join("proto")])?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .out_dir(package.join("src"))
        .compile_fds(descriptors)?;
    let generated = package.join("src/etcdserverpb.rs");
    let text = fs::read_to_string(&generated)?;
    fs::write(&generated, format!("{HEADER}\n{text}"))?;
    Ok(())
}

const HEADER: &str =
    "//! Messages and clients of etcd's API. Generated from proto/etcd.proto by generate/src/main.rs: do not edit.";
