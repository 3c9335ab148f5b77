//! What must hold in every state, and what must come about in some, so that the first means something.

use neuron_container_runtime::chip::ChipSet;
use neuron_container_runtime::lease::{self, Ledger};
use neuron_container_runtime::request::Want;
use stateright::Property;

use crate::host::Name;
use crate::protocol::{Protocol, Role, Run, Stage, State};
use crate::steps::{Decision, claimed};
use crate::truth::{Arrival, Grant, LeaseId, Tie};

/// I1, of the containers that run.
pub(crate) const ALONE: &str = "I1: no two containers that run have a chip or a core in common";
/// I1, of the ledger.
pub(crate) const APART: &str = "I1: no two live leases meet";
/// I2.
pub(crate) const BOUND: &str = "I2: who runs with chips has a bound lease of exactly these";
/// I3.
pub(crate) const TRUE: &str = "I3: the leases and waiters that are live to the ledger are those that are alive";
/// Chips come free, and only then.
pub(crate) const FREE: &str = "what no live holder has can be claimed, and nothing else";
/// Order of arrival.
pub(crate) const TURN: &str = "who came first is served first, and nobody waits for the dead";

/// Who asks just to see whether he would get it.
const PROBE: LeaseId = LeaseId { of: usize::MAX, start: 0, by_caller: false };

// A model that reaches these says something.
pub(crate) const ONE_RUNS: &str = "a container runs";
pub(crate) const TWO_RUN: &str = "two containers run at once";
pub(crate) const ALL_HELD: &str = "every chip is held and nobody runs";
pub(crate) const ORPHAN: &str = "a child has outlived its init";
pub(crate) const SERVED: &str = "the first of two that wait can have what he waits for";
pub(crate) const GONE_ON: &str = "a wrapper goes on with a caller's lease";
pub(crate) const REBOOTED: &str = "a container runs after a reboot";
pub(crate) const SHARED: &str = "two containers share a chip";
pub(crate) const CONFLICT: &str = "a chip is granted to one and was given to another by hand";
pub(crate) const TOO_LATE: &str = "a hook comes when its lease has gone";

pub(crate) fn of(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let always = [
        Property::always(ALONE, |_, state: &State| pairs(&in_hands(state)).all(|(one, other)| !one.meets(other))),
        Property::always(APART, |protocol: &Protocol, state: &State| pairs(&live(protocol, state)).all(|(one, other)| !one.meets(other))),
        Property::always(BOUND, |protocol, state: &State| (0..state.runs.len()).all(|of| is_bound(protocol, state, of))),
        Property::always(TRUE, tells_the_truth),
        Property::always(FREE, frees_what_is_free),
        Property::always(TURN, keeps_the_order),
    ];
    let sometimes = [
        Property::sometimes(ONE_RUNS, |_, state: &State| !in_hands(state).is_empty()),
        Property::sometimes(TWO_RUN, |_, state: &State| in_hands(state).len() > 1),
        Property::sometimes(ALL_HELD, |protocol: &Protocol, state: &State| {
            in_hands(state).is_empty() && protocol.inventory.ids() == tied(state)
        }),
        Property::sometimes(ORPHAN, |_, state: &State| {
            (0..state.runs.len()).any(|of| state.alive(of, Role::Child) && !state.alive(of, Role::Init))
        }),
        Property::sometimes(SERVED, |protocol: &Protocol, state: &State| {
            let has_come = |first: &Arrival| state.truth.can_be_had(protocol.containers[first.of].want, &protocol.inventory);
            state.truth.arrivals.len() > 1 && state.truth.arrivals.first().is_some_and(has_come)
        }),
        Property::sometimes(GONE_ON, |_, state: &State| {
            state.truth.ties.iter().any(|tie| tie.grant.lease.by_caller && tie.expires.is_none() && !tie.bound)
        }),
        Property::sometimes(REBOOTED, |_, state: &State| state.host.boot > 0 && !in_hands(state).is_empty()),
        Property::sometimes(SHARED, |_, state: &State| {
            pairs(&in_hands(state)).any(|(one, other)| !one.chips.intersection(other.chips).is_empty())
        }),
        Property::sometimes(CONFLICT, |_, state: &State| {
            pairs(&in_hands(state)).any(|(one, other)| one.overlaps(other) && one.adopted != other.adopted)
        }),
        Property::sometimes(TOO_LATE, |_, state: &State| {
            let late = |run: &Run| run.nodes.is_some_and(|nodes| state.truth.tie(nodes.lease).is_none());
            state.runs.iter().any(|run| matches!(run.stage, Stage::Looked(_)) && late(run))
        }),
    ];
    always.into_iter().chain(sometimes.into_iter().filter(|reached| protocol.reaches.contains(&reached.name))).collect()
}

fn in_hands(state: &State) -> Vec<Grant> {
    (0..state.runs.len()).filter_map(|of| state.in_hands(of)).collect()
}

fn tied(state: &State) -> ChipSet {
    state.truth.ties.iter().fold(ChipSet::EMPTY, |chips, tie| chips.union(tie.grant.chips))
}

fn pairs(grants: &[Grant]) -> impl Iterator<Item = (&Grant, &Grant)> {
    grants.iter().enumerate().flat_map(|(at, one)| grants[..at].iter().map(move |other| (one, other)))
}

/// The grants of the leases that the ledger counts as live.
fn live(protocol: &Protocol, state: &State) -> Vec<Grant> {
    let cores = |lease: &lease::Lease| lease.cores.map(|run| (run.first(), run.len()));
    let leases = protocol.lock_and_reap(state);
    leases
        .leases()
        .iter()
        .map(|lease| Grant { lease: PROBE, chips: lease.chips, cores: cores(lease), adopted: lease.mode == lease::Mode::Adopted })
        .collect()
}

/// Does a container that runs have its lease?
fn is_bound(protocol: &Protocol, state: &State, of: usize) -> bool {
    let Some(nodes) = state.in_hands(of).filter(|nodes| !nodes.adopted) else { return true };
    let ledger = protocol.lock_and_reap(state);
    ledger.lease(&nodes.lease.text()).is_some_and(|lease| {
        let own = lease.state == lease::State::Bound && lease.holder == state.name(of, Role::Init).holder();
        own && lease.chips == nodes.chips && lease.cores == nodes.core_run() && lease.container == protocol.containers[of].id
    })
}

fn tells_the_truth(protocol: &Protocol, state: &State) -> bool {
    let ledger = protocol.lock_and_reap(state);
    let same = |lease: &lease::Lease, tie: &Tie| {
        let bound = lease.state == lease::State::Bound;
        lease.id == tie.grant.lease.text() && lease.holder == tie.holder.holder() && bound == tie.bound && lease.chips == tie.grant.chips
    };
    let leases = ledger.leases().len() == state.truth.ties.len()
        && ledger.leases().iter().zip(&state.truth.ties).all(|(lease, tie)| same(lease, tie));
    let waiters = ledger.queue().iter().map(|waiter| &waiter.holder);
    leases && waiters.eq(state.truth.arrivals.iter().map(|arrival| arrival.process.holder()).collect::<Vec<_>>().iter())
}

/// What a newcomer would get; in no case what somebody has.
fn gets(protocol: &Protocol, state: &State, ledger: &Ledger, want: Want, waiter: Option<&str>) -> Result<bool, ()> {
    let Decision::Granted(chips, share) = protocol.decide(ledger, want, waiter, None) else { return Ok(false) };
    let grant = Grant { lease: PROBE, chips, cores: share.map(|share| (share.cores.first(), share.cores.len())), adopted: false };
    if state.truth.ties.iter().any(|tie| tie.grant.overlaps(&grant)) {
        return Err(());
    }
    let newcomer = Name { pid: 9, start: 9 };
    let tie = Tie { grant, container: "newcomer", holder: newcomer, cgroup: None, expires: None, bound: false };
    Ok((protocol.rules.claim)(&mut ledger.clone(), claimed(&tie, share)))
}

/// Does a newcomer get just what is free: each chip, all of them, a core?
fn frees_what_is_free(protocol: &Protocol, state: &State) -> bool {
    if !state.truth.arrivals.is_empty() {
        return true;
    }
    let ledger = protocol.lock_and_reap(state);
    let each = protocol.inventory.ids().iter().map(|id| Want::Ids([id].into_iter().collect()));
    let sharing = protocol.containers.iter().any(|container| matches!(container.want, Want::Cores(_)));
    let more = [Want::Any(1), Want::All].into_iter().chain(sharing.then_some(Want::Cores(1)));
    each.chain(more).all(|want| gets(protocol, state, &ledger, want, None) == Ok(state.truth.can_be_had(want, &protocol.inventory)))
}

/// A newcomer gets nothing while somebody waits, and of those who wait the first gets what there is.
fn keeps_the_order(protocol: &Protocol, state: &State) -> bool {
    if state.truth.out_of_turn {
        return false;
    }
    let mut waiters = state.truth.arrivals.iter().map(|arrival| arrival.of);
    let Some(first) = waiters.next() else { return true };
    let ledger = protocol.lock_and_reap(state);
    let served = |of: usize| {
        let run = &state.runs[of];
        let id = LeaseId { of, start: run.start, by_caller: run.by_caller }.text();
        gets(protocol, state, &ledger, protocol.containers[of].want, Some(&id))
    };
    let newcomer = gets(protocol, state, &ledger, Want::Any(1), None);
    newcomer == Ok(false)
        && served(first) == Ok(state.truth.can_be_had(protocol.containers[first].want, &protocol.inventory))
        && waiters.all(|later| served(later) == Ok(false))
}
