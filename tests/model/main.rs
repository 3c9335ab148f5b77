//! A model of the life of a lease (design.md, I1 to I3), checked in every state that it can come to.
//!
//! The ledger's transitions and the choice of chips are the program's own (`lease`, `select`, `cores`); around them a tiny host, where
//! containers begin, are killed at any step, outlive their init, wait in line, get the pids of the dead, are rebooted. Beside the ledger
//! the model keeps what is *true* (`truth.rs`), and judges the ledger by that. `mutants.rs` shows that it can fail.
//!
//! Not in it: the lock and the file (what is done under the lock is one step), `/dev` and the edit of the spec, how waiters are woken,
//! other pid namespaces, what cannot be read. The order of steps and `Processes::life` are retold, for they touch the host.
//!
//! The small models, 173,000 states in all, are always checked. The large ones by hand, in some ten minutes on two cores (`every_way` 16.6
//! million states, `three_by_three` 7.7, `every_end` 3.1, `much_sharing` 2.8, `long_line` 2.5, `one_bundle_again` 2.0):
//! `cargo test --release --test model -- --ignored --nocapture --test-threads=1`

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "what fails here fails a test; what a model comes to is said")]

mod host;
mod mutants;
mod properties;
mod protocol;
mod rules;
mod steps;
mod truth;
mod worlds;
