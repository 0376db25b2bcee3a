//! The `fairway` program.

fn main() {}
