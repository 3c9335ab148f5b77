//! The model can fail: each of these programs has one fault, and the checker finds what it leads to.

use std::collections::BTreeSet;

use neuron_container_runtime::chip::Inventory;
use neuron_container_runtime::lease::{Lease, Ledger, Life, Mode, Seen, State as Progress};
use neuron_container_runtime::select::Held;
use serde_json::Value;
use stateright::{Checker, HasDiscoveries, Model};

use crate::host::Host;
use crate::properties::{ALONE, APART, BOUND, FREE, TRUE, TURN};
use crate::protocol::{Protocol, State};
use crate::rules::{Binding, REAL, Rules, bind, choose};
use crate::worlds::{by_hand, callers, in_line, one_bundle, outlived, pids_come_again, rebooted, sharing, started_again};

/// Looks for a state where the property does not hold, and says how it came about.
fn breaks(rules: Rules, world: Protocol, property: &'static str) {
    let until = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let checker = Protocol { rules, ..world }.checker().finish_when(until).spawn_bfs().join();
    let found = checker.discovery(property).map(|path| path.into_actions());
    eprintln!("{property}: after {} states: {found:?}", checker.unique_state_count());
    assert!(found.is_some(), "not found: {property}");
}

/// Changes leases as no function of the program does.
fn rewrite(ledger: &mut Ledger, change: impl Fn(&mut Lease)) {
    let mut value: Value = serde_json::from_slice(&ledger.to_text().unwrap()).unwrap();
    let boot = value["boot_id"].as_str().unwrap().to_owned();
    for entry in value["leases"].as_array_mut().unwrap() {
        let mut lease = serde_json::from_value(entry.take()).unwrap();
        change(&mut lease);
        *entry = serde_json::to_value(lease).unwrap();
    }
    *ledger = Ledger::parse(value.to_string().as_bytes(), &boot).unwrap();
}

/// Reaps leases by another rule; waiters by the real one.
fn reap(ledger: &mut Ledger, host: &Host, life: impl Fn(&Lease) -> Life) {
    ledger.reap(life);
    ledger.reap_queue(|waiter| host.life_of_waiter(waiter));
}

#[test]
fn a_bind_that_does_not_look_for_its_lease_starts_containers_without_one() {
    breaks(Rules { bind: |_, _| true, ..REAL }, callers(), BOUND);
}

#[test]
fn a_bind_that_takes_a_bound_lease_gives_its_chips_twice() {
    let again = |ledger: &mut Ledger, binding: Binding<'_>| {
        rewrite(ledger, |lease| lease.state = Progress::Claimed);
        bind(ledger, binding)
    };
    breaks(Rules { bind: again, ..REAL }, one_bundle(), ALONE);
}

#[test]
fn a_bind_that_leaves_the_expiry_loses_the_lease_of_who_runs() {
    let keeps = |ledger: &mut Ledger, binding: Binding<'_>| {
        let (id, old) = (binding.lease, ledger.lease(binding.lease).and_then(|lease| lease.expires));
        let bound = bind(ledger, binding);
        rewrite(ledger, |lease| {
            if lease.id == id {
                lease.expires = old
            }
        });
        bound
    };
    breaks(Rules { bind: keeps, ..REAL }, callers(), ALONE);
}

#[test]
fn a_bind_that_leaves_the_holder_loses_the_lease_of_who_runs() {
    let keeps = |ledger: &mut Ledger, binding: Binding<'_>| {
        let old = ledger.lease(binding.lease).map(|lease| lease.holder.clone());
        let init = old.unwrap_or(binding.init);
        bind(ledger, Binding { init, ..binding })
    };
    breaks(Rules { bind: keeps, ..REAL }, pids_come_again(), ALONE);
}

#[test]
fn a_bind_that_notes_no_cgroup_gives_the_chips_of_children_away() {
    let forgets = |ledger: &mut Ledger, binding: Binding<'_>| bind(ledger, Binding { cgroup: None, ..binding });
    breaks(Rules { bind: forgets, ..REAL }, outlived(), ALONE);
}

#[test]
fn a_reap_by_pid_alone_keeps_chips_for_strangers() {
    let by_pid = |ledger: &mut Ledger, host: &Host| {
        reap(ledger, host, |lease| match host.seen(lease.holder.pid) {
            Seen::There { state, threads, .. } => lease.holder.life(Seen::There { start: lease.holder.start, state, threads }),
            seen => lease.holder.life(seen),
        });
    };
    breaks(Rules { reap: by_pid, ..REAL }, pids_come_again(), FREE);
}

#[test]
fn a_reap_that_ignores_the_cgroup_gives_the_chips_of_children_away() {
    let by_holder = |ledger: &mut Ledger, host: &Host| reap(ledger, host, |lease| lease.holder.life(host.seen(lease.holder.pid)));
    breaks(Rules { reap: by_holder, ..REAL }, outlived(), ALONE);
}

#[test]
fn a_reap_that_takes_zombies_for_alive_keeps_their_chips() {
    let by_proc = |ledger: &mut Ledger, host: &Host| {
        reap(ledger, host, |lease| match host.seen(lease.holder.pid) {
            Seen::There { start, .. } => lease.holder.life(Seen::There { start, state: 'S', threads: 1 }),
            seen => lease.holder.life(seen),
        });
    };
    breaks(Rules { reap: by_proc, ..REAL }, pids_come_again(), FREE);
}

#[test]
fn a_reap_that_takes_every_zombie_for_dead_gives_the_chips_of_threads_away() {
    let by_state = |ledger: &mut Ledger, host: &Host| {
        reap(ledger, host, |lease| match host.seen(lease.holder.pid) {
            Seen::There { state: 'Z', .. } => Life::Dead,
            seen => lease.holder.life(seen),
        });
    };
    breaks(Rules { reap: by_state, ..REAL }, pids_come_again(), ALONE);
}

#[test]
fn a_reap_that_knows_no_expiry_leaves_chips_with_callers() {
    let without_time = |ledger: &mut Ledger, host: &Host| {
        reap(ledger, host, |lease| host.life(&Lease { expires: None, ..lease.clone() }));
    };
    breaks(Rules { reap: without_time, ..REAL }, callers(), FREE);
}

#[test]
fn a_claim_that_does_not_reap_loses_the_chips_of_the_dead() {
    breaks(Rules { reap: |_, _| {}, ..REAL }, started_again(), FREE);
}

#[test]
fn a_ledger_that_outlives_its_boot_is_no_true_one() {
    let any_boot = |state: &State| Ledger::clone(&state.ledger);
    breaks(Rules { load: any_boot, ..REAL }, rebooted(), TRUE);
    breaks(Rules { load: any_boot, ..REAL }, rebooted(), FREE);
}

#[test]
fn a_claim_that_ignores_the_queue_is_served_out_of_turn() {
    breaks(Rules { in_line: |_, _| true, ..REAL }, in_line(), TURN);
}

#[test]
fn a_queue_that_is_not_reaped_waits_for_the_dead() {
    let leases_only = |ledger: &mut Ledger, host: &Host| ledger.reap(|lease| host.life(lease));
    breaks(Rules { reap: leases_only, ..REAL }, in_line(), FREE);
    breaks(Rules { reap: leases_only, ..REAL }, in_line(), TURN);
}

#[test]
fn a_queue_that_knows_no_time_waits_for_who_has_given_up() {
    let by_holder = |ledger: &mut Ledger, host: &Host| {
        ledger.reap(|lease| host.life(lease));
        ledger.reap_queue(|waiter| waiter.holder.life(host.seen(waiter.holder.pid)));
    };
    breaks(Rules { reap: by_holder, ..REAL }, in_line(), FREE);
}

#[test]
fn a_choice_that_ignores_shared_leases_refuses_what_is_free() {
    let exclusive = |inventory: &Inventory, held: &[Held], want| {
        let whole: Vec<Held> = held.iter().filter(|held| held.share.is_none()).cloned().collect();
        choose(inventory, &whole, want)
    };
    // The ledger looks for itself, so nothing worse comes of it …
    breaks(Rules { choose: exclusive, ..REAL }, sharing(), FREE);
    // … as long as it does.
    let blind = |ledger: &mut Ledger, lease: Lease| {
        let mode = lease.mode;
        let id = lease.id.clone();
        let done = ledger.claim(Lease { mode: Mode::Adopted, ..lease }).is_ok();
        rewrite(ledger, |lease| {
            if lease.id == id {
                lease.mode = mode
            }
        });
        done
    };
    breaks(Rules { choose: exclusive, claim: blind, ..REAL }, sharing(), APART);
    breaks(Rules { choose: exclusive, claim: blind, ..REAL }, sharing(), ALONE);
}

#[test]
fn a_choice_that_ignores_what_was_given_by_hand_refuses_what_is_free() {
    let granted_only = |inventory: &Inventory, held: &[Held], want| {
        let granted: Vec<Held> = held.iter().filter(|held| held.container != "b").cloned().collect();
        choose(inventory, &granted, want)
    };
    breaks(Rules { choose: granted_only, ..REAL }, by_hand(), FREE);
}

#[test]
fn a_wrapper_that_takes_any_lease_over_gives_its_chips_twice() {
    let any = |ledger: &mut Ledger, id: &str, container: &str, holder| {
        rewrite(ledger, |lease| {
            if lease.id == id {
                (lease.state, lease.expires) = (Progress::Claimed, Some(u64::MAX));
            }
        });
        ledger.take_over(id, container, holder).is_some()
    };
    breaks(Rules { take_over: any, ..REAL }, one_bundle(), ALONE);
}
