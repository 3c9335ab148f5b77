//! The rules of the game: the program's own functions, in a table so that a mutant can put another in the place of one.

use neuron_container_runtime::chip::{ChipSet, Inventory};
use neuron_container_runtime::cores::{self, Share, Wanted};
use neuron_container_runtime::lease::{Holder, Lease, Ledger};
use neuron_container_runtime::request::Want;
use neuron_container_runtime::select::{self, Held, Policy, Shortage};

use crate::host::Host;
use crate::protocol::State;
use crate::truth::CORES;

/// What a hook asks of the ledger.
pub(crate) struct Binding<'a> {
    pub(crate) lease: &'a str,
    pub(crate) container: &'a str,
    pub(crate) init: Holder,
    pub(crate) cgroup: Option<String>,
    /// The chips whose nodes the hook was told of.
    pub(crate) nodes: ChipSet,
}

type Chosen = Result<(ChipSet, Option<Share>), Shortage>;

#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) load: fn(&State) -> Ledger,
    pub(crate) reap: fn(&mut Ledger, &Host),
    /// Is it this waiter's turn, or somebody's who does not wait?
    pub(crate) in_line: fn(&Ledger, Option<&str>) -> bool,
    /// Does the lease that a spec bears belong to a container that lives?
    pub(crate) still_running: fn(&Ledger, &str) -> bool,
    pub(crate) choose: fn(&Inventory, &[Held], Want) -> Chosen,
    pub(crate) claim: fn(&mut Ledger, Lease) -> bool,
    pub(crate) bind: fn(&mut Ledger, Binding<'_>) -> bool,
    pub(crate) take_over: fn(&mut Ledger, &str, &str, Holder) -> bool,
}

/// As the program has them.
pub(crate) const REAL: Rules = Rules {
    load,
    reap,
    in_line: |ledger, waiter| ledger.before(waiter).is_empty(),
    still_running: |ledger, lease| ledger.lease(lease).is_some(),
    choose,
    claim: |ledger, lease| ledger.claim(lease).is_ok(),
    bind,
    take_over: |ledger, lease, container, holder| ledger.take_over(lease, container, holder).is_some(),
};

/// Only after a reboot is there a difference between the text and what was written, so only then is it read: JSON is slow.
fn load(state: &State) -> Ledger {
    if state.written_in == state.host.boot {
        return Ledger::clone(&state.ledger);
    }
    let text = state.ledger.to_text().unwrap_or_default();
    // An error would show as leases of the boot before.
    Ledger::parse(&text, state.host.boot_id()).unwrap_or_else(|_| Ledger::clone(&state.ledger))
}

fn reap(ledger: &mut Ledger, host: &Host) {
    ledger.reap(|lease| host.life(lease));
    ledger.reap_queue(|waiter| host.life_of_waiter(waiter));
}

pub(crate) fn choose(inventory: &Inventory, held: &[Held], want: Want) -> Chosen {
    let policy = Policy::default();
    if let Want::Cores(count) = want {
        let (choice, share) = cores::select(inventory, held, Wanted { count, lnc: 1, of_chip: CORES }, &policy)?;
        return Ok((choice.chips, Some(share)));
    }
    Ok((select::select(inventory, held, want, &policy)?.chips, None))
}

/// The end of `bind::bind`, after the look at the container's `/dev`.
pub(crate) fn bind(ledger: &mut Ledger, binding: Binding<'_>) -> bool {
    let Binding { lease, container, init, cgroup, nodes } = binding;
    ledger.bind(lease, container, init, cgroup).is_ok_and(|lease| lease.chips == nodes)
}
