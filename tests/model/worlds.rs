//! The models that are checked: small ones always, large ones by hand.

use std::time::Instant;

use neuron_container_runtime::chip::{ChipId, ChipSet};
use neuron_container_runtime::request::Want;
use stateright::{Checker, Model};

use crate::properties::{ALL_HELD, CONFLICT, GONE_ON, ONE_RUNS, ORPHAN, REBOOTED, SERVED, SHARED, TOO_LATE, TWO_RUN};
use crate::protocol::{Container, Protocol, Way};

/// A container that asks for these by the wrapper, does not wait, and has a pid namespace of its own.
fn container(id: &'static str, bundle: usize, want: Want) -> Container {
    Container { id, bundle, want, way: Way::Wrapper, patient: false, outlived: false, anonymous: false, adopted: false }
}

fn ids(first: u32, len: u32) -> Want {
    Want::Ids(ChipSet::run(ChipId::new(first).unwrap(), len).unwrap())
}

/// Pids come again, and the dead stay zombies for a while.
pub(crate) fn pids_come_again() -> Protocol {
    let containers = vec![container("a", 0, Want::Any(1)), container("b", 1, ids(0, 1))];
    Protocol { reuse: true, zombies: true, reaches: &[ONE_RUNS, TWO_RUN, ALL_HELD, TOO_LATE], ..Protocol::new(2, containers) }
}

/// Two take turns with the one chip; bundles are run again.
pub(crate) fn started_again() -> Protocol {
    let containers = vec![container("a", 0, Want::All), container("b", 1, Want::Any(1))];
    Protocol { starts: 2, raw: true, reuse: true, ..Protocol::new(1, containers) }
}

/// Children outlive their init, in a cgroup that another container of the same id has too.
pub(crate) fn outlived() -> Protocol {
    let outlived = |bundle, want| Container { outlived: true, ..container("a", bundle, want) };
    let containers = vec![outlived(0, Want::Any(1)), outlived(1, Want::Any(2))];
    Protocol { zombies: true, reaches: &[ONE_RUNS, ORPHAN, TOO_LATE], ..Protocol::new(2, containers) }
}

/// Callers hold leases for a while: Podman's with and without the wrapper.
pub(crate) fn callers() -> Protocol {
    let both = Container { way: Way::Both, ..container("a", 0, Want::Any(1)) };
    let podman = Container { way: Way::Precreate, anonymous: true, ..container("b", 1, ids(0, 1)) };
    Protocol { clock: 1, reaches: &[ONE_RUNS, TWO_RUN, ALL_HELD, GONE_ON, TOO_LATE], ..Protocol::new(2, vec![both, podman]) }
}

/// Two runtimes begin one container from one bundle, again and again.
pub(crate) fn one_bundle() -> Protocol {
    let containers = vec![container("a", 0, Want::Any(1)), container("a", 0, Want::Any(1))];
    Protocol { raw: true, reaches: &[ONE_RUNS, ALL_HELD, TOO_LATE], ..Protocol::new(2, containers) }
}

/// The host is rebooted: pids and start times come again, and a ledger that a disk has kept.
pub(crate) fn rebooted() -> Protocol {
    let containers = vec![container("a", 0, Want::Any(1)), container("b", 1, Want::All)];
    Protocol { starts: 2, reboot: true, reaches: &[ONE_RUNS, REBOOTED], ..Protocol::new(1, containers) }
}

/// Two wait for a third.
pub(crate) fn in_line() -> Protocol {
    let waits = |id, bundle| Container { patient: true, ..container(id, bundle, Want::All) };
    let containers = vec![container("a", 0, Want::Any(1)), waits("b", 1), waits("c", 2)];
    Protocol { clock: 2, reaches: &[ONE_RUNS, SERVED], ..Protocol::new(1, containers) }
}

/// One is given a chip by hand that others ask for.
pub(crate) fn by_hand() -> Protocol {
    let adopted = Container { adopted: true, ..container("b", 1, ids(0, 1)) };
    let reaches = &[ONE_RUNS, TWO_RUN, CONFLICT, ALL_HELD, TOO_LATE];
    Protocol { reaches, ..Protocol::new(2, vec![container("a", 0, Want::Any(1)), adopted]) }
}

/// Two share a chip of which a third wants the whole.
pub(crate) fn sharing() -> Protocol {
    let containers = vec![container("a", 0, Want::Cores(1)), container("b", 1, Want::Cores(1)), container("c", 2, ids(0, 1))];
    Protocol { reaches: &[ONE_RUNS, TWO_RUN, SHARED, ALL_HELD], ..Protocol::new(1, containers) }
}

/// Three containers of different sizes, each killed in all ways.
fn three_by_three() -> Protocol {
    let containers = vec![container("a", 0, Want::Any(1)), container("b", 1, Want::Any(2)), container("c", 2, ids(0, 1))];
    Protocol { reuse: true, zombies: true, reaches: &[ONE_RUNS, TWO_RUN, ALL_HELD, TOO_LATE], ..Protocol::new(3, containers) }
}

/// Each way of coming to a lease at once, and children that outlive.
fn every_way() -> Protocol {
    let wrapper = Container { outlived: true, ..container("a", 0, Want::Any(1)) };
    let both = Container { way: Way::Both, anonymous: true, ..container("b", 1, ids(0, 1)) };
    let podman = Container { way: Way::Precreate, ..container("c", 2, Want::Any(1)) };
    let reaches = &[ONE_RUNS, TWO_RUN, ALL_HELD, ORPHAN, GONE_ON, TOO_LATE];
    Protocol { clock: 1, reuse: true, reaches, ..Protocol::new(2, vec![wrapper, both, podman]) }
}

/// Two containers, each started twice, on a host that is rebooted, where pids come again.
fn every_end() -> Protocol {
    let wrapper = Container { outlived: true, ..container("a", 0, Want::Any(1)) };
    let both = Container { way: Way::Both, ..container("b", 1, Want::Any(1)) };
    let reaches = &[ONE_RUNS, TWO_RUN, ALL_HELD, ORPHAN, GONE_ON, REBOOTED, TOO_LATE];
    Protocol { starts: 2, reboot: true, clock: 1, reuse: true, reaches, ..Protocol::new(2, vec![wrapper, both]) }
}

/// One bundle, begun by two runtimes twice and by another container.
fn one_bundle_again() -> Protocol {
    let containers = vec![container("a", 0, Want::Any(1)), container("a", 0, Want::Any(1))];
    Protocol { raw: true, starts: 2, reuse: true, zombies: true, reaches: &[ONE_RUNS, ALL_HELD, TOO_LATE], ..Protocol::new(2, containers) }
}

/// Four in line, of whom one cannot wait; one asks by way of `precreate`.
fn long_line() -> Protocol {
    let waits = |id, bundle, want| Container { patient: true, ..container(id, bundle, want) };
    let podman = Container { way: Way::Precreate, ..waits("b", 1, ids(0, 1)) };
    let containers = vec![container("a", 0, Want::Any(1)), podman, waits("c", 2, Want::All), waits("d", 3, Want::Any(1))];
    Protocol { clock: 2, reaches: &[ONE_RUNS, SERVED], ..Protocol::new(1, containers) }
}

/// Three share two chips with one that wants a whole one.
fn much_sharing() -> Protocol {
    let part = |id, bundle, cores| container(id, bundle, Want::Cores(cores));
    let containers = vec![part("a", 0, 1), part("b", 1, 2), part("c", 2, 1), container("d", 3, Want::All)];
    Protocol { reaches: &[ONE_RUNS, TWO_RUN, SHARED, ALL_HELD], ..Protocol::new(2, containers) }
}

/// Checks all there is to check, and says how much that was.
fn holds(protocol: Protocol) {
    let began = Instant::now();
    let checker = protocol.checker().threads(2).spawn_dfs().join();
    eprintln!("{} states, {:.1?}", checker.unique_state_count(), began.elapsed());
    checker.assert_properties();
}

#[test]
fn the_lease_holds_where_pids_come_again() {
    holds(pids_come_again());
}

#[test]
fn the_lease_holds_where_containers_are_started_again() {
    holds(started_again());
}

#[test]
fn the_lease_holds_where_children_outlive_their_init() {
    holds(outlived());
}

#[test]
fn the_lease_holds_where_callers_hold_it_for_a_while() {
    holds(callers());
}

#[test]
fn the_lease_holds_where_two_run_one_bundle() {
    holds(one_bundle());
}

#[test]
fn the_lease_holds_over_a_reboot() {
    holds(rebooted());
}

#[test]
fn waiters_are_served_in_order_of_arrival() {
    holds(in_line());
}

#[test]
fn chips_that_were_given_by_hand_are_not_granted() {
    holds(by_hand());
}

#[test]
fn cores_are_shared_and_chips_are_not() {
    holds(sharing());
}

#[test]
#[ignore = "minutes, in a release build"]
fn three_containers_on_three_chips() {
    holds(three_by_three());
}

#[test]
#[ignore = "minutes, in a release build"]
fn every_way_to_a_lease_at_once() {
    holds(every_way());
}

#[test]
#[ignore = "minutes, in a release build"]
fn every_end_of_a_process_and_a_reboot() {
    holds(every_end());
}

#[test]
#[ignore = "minutes, in a release build"]
fn one_bundle_begun_four_times() {
    holds(one_bundle_again());
}

#[test]
#[ignore = "minutes, in a release build"]
fn four_in_line() {
    holds(long_line());
}

#[test]
#[ignore = "minutes, in a release build"]
fn four_on_two_shared_chips() {
    holds(much_sharing());
}
