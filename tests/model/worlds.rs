//! The models that are checked: small ones always, large ones by hand.

use std::time::Instant;

use neuron_container_runtime::chip::{ChipId, ChipSet};
use neuron_container_runtime::request::Want;
use stateright::{Checker, Model};

use crate::protocol::{Container, Protocol, Way};

/// A container that asks for these by the wrapper, does not wait, and has a pid namespace of its own.
pub(crate) fn container(id: &'static str, bundle: usize, want: Want) -> Container {
    Container { id, bundle, want, way: Way::Wrapper, patient: false, outlived: false, anonymous: false }
}

pub(crate) fn ids(first: u32, len: u32) -> Want {
    Want::Ids(ChipSet::run(ChipId::new(first).unwrap(), len).unwrap())
}

/// Checks all there is to check, and says how much that was.
fn holds(name: &str, protocol: Protocol) {
    let began = Instant::now();
    let checker = protocol.checker().threads(2).spawn_dfs().join();
    eprintln!("{name}: {} states in {:.1?}", checker.unique_state_count(), began.elapsed());
    checker.assert_properties();
}

#[test]
fn two_containers_start_and_die() {
    holds("two", Protocol::new(2, vec![container("a", 0, Want::Any(1)), container("b", 1, Want::Any(1))]));
}
