//! Leases that live on though their containers may not.

use super::{Finding, Patient};
use crate::claim::look;
use crate::kernel;
use crate::lease::{Lease, State};
use crate::process::Processes;

pub(super) fn findings(patient: &Patient<'_>) -> Vec<Finding> {
    let Ok(processes) = Processes::new(&patient.host.proc) else { return Vec::new() };
    // That it cannot be read was said.
    let Ok(ledger) = look(patient.host, &processes) else { return Vec::new() };
    vec![conflicts(ledger.leases()), orphans(patient, ledger.leases()), elsewhere(&processes, ledger.leases())]
}

/// runc's `init` that nobody starts or deletes holds its container's chips (a killed shim leaves it).
fn orphans(patient: &Patient<'_>, leases: &[Lease]) -> Finding {
    let is_orphan = |lease: &&Lease| {
        let name = kernel::text(&patient.host.proc.join(lease.holder.pid.to_string()).join("comm")).unwrap_or_default();
        lease.state == State::Bound && name.starts_with("runc:[")
    };
    match leases.iter().find(is_orphan) {
        None => Finding::good("orphans", "no container that was created and never started holds chips"),
        Some(lease) => Finding::note(
            "orphans",
            format!("{} was created and not started, and holds {} (pid {})", lease.called(), lease.chips.named("chip"), lease.holder.pid),
            format!(
                "where nobody is about to start it: runc --root {} delete --force {}",
                if lease.root.is_empty() { "/run/runc" } else { &lease.root },
                lease.container
            ),
        ),
    }
}

/// Chips that were given by hand and are somebody else's, too.
fn conflicts(leases: &[Lease]) -> Finding {
    let mut pairs = leases.iter().enumerate().flat_map(|(at, one)| leases.iter().skip(at + 1).map(move |other| (one, other)));
    match pairs.find(|(one, other)| one.clashes(other)) {
        None => Finding::good("conflicts", "no chip was given to two containers"),
        Some((one, other)) => Finding::note(
            "conflicts",
            format!("{} and {} both have {}", one.called(), other.called(), one.chips.intersection(other.chips).named("chip")),
            "end one of them; with manual-devices = \"exclusive\" whoever is given a chip by hand that somebody has is refused",
        ),
    }
}

fn elsewhere(processes: &Processes, leases: &[Lease]) -> Finding {
    match leases.iter().find(|lease| lease.holder.pidns != processes.pidns()) {
        None => Finding::good("namespaces", "every holder is of this pid namespace"),
        Some(lease) => Finding::note(
            "namespaces",
            format!("{} is held in another pid namespace", lease.called()),
            "its chips come back when no process of that namespace is left",
        ),
    }
}
