//! A model of the lease protocol.
fn main() {}
