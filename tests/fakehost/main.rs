//! Whole programs on a simulated host: the real executable in its three faces, a stand-in for the low-level runtime, real processes.
//!
//! Runs as any user: without root regular files stand for device nodes, and the nodes of a grant come as bind mounts.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "what fails here fails a test, and a test that is skipped says why")]

mod call;
mod cdi;
mod host;
mod specs;

mod again;
mod attacks;
mod binding;
mod broken;
mod configure;
mod cores;
mod demo;
mod discovery;
mod doctor;
mod documents;
mod efa;
mod engine_specs;
mod leases;
mod manual;
mod messages;
mod metrics;
mod pages;
mod passthrough;
mod plan;
mod precreate;
mod refusals;
mod requests;
mod requests_kubernetes;
mod resetting;

mod sessions;
mod simulate;
mod status;
mod storm;
mod unclaimed;
mod untrusted;
mod waiting;
