//! A model of the lease protocol.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "what fails here fails a test; what a model comes to is said")]

mod host;
mod mutants;
mod properties;
mod protocol;
mod rules;
mod steps;
mod truth;
mod worlds;
