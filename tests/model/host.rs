//! A tiny host: processes with pids that come again, cgroups, a clock, a boot. What `process.rs` reads off a real one.

use std::cmp::Ordering;

use neuron_container_runtime::lease::{Holder, Lease, Life, Seen, Waiter};

/// The only pid namespace.
const PIDNS: u64 = 1;
/// Who adopts the children of the dead.
pub(crate) const PID_1: Name = Name { pid: 1, start: 0 };

/// A process, as nothing in the program under test can name it wrongly: in one boot no two have both numbers in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) pid: i32,
    pub(crate) start: u64,
}

impl Name {
    /// Of a container's own: by how often it has been started in this boot.
    pub(crate) fn own(pid: i32, starts: u8) -> Self {
        Self { pid, start: u64::from(starts) * 2 }
    }

    /// Of a stranger with the same pid, after this start's own process.
    pub(crate) fn strangers(pid: i32, starts: u8) -> Self {
        Self { pid, start: u64::from(starts) * 2 + 1 }
    }

    pub(crate) fn is_strangers(self) -> bool {
        self.start % 2 == 1
    }

    pub(crate) fn holder(self) -> Holder {
        Holder { pid: self.pid, start: self.start, pidns: PIDNS }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Runs,
    /// The leader has called `pthread_exit`, its threads go on.
    Leaderless,
    /// Dead, and not yet waited for.
    Zombie,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) name: Name,
    pub(crate) phase: Phase,
    pub(crate) cgroup: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    pub(crate) boot: u8,
    /// `CLOCK_BOOTTIME`, in steps that are longer than a caller may hold a lease.
    pub(crate) clock: u64,
    /// By pid; without pid 1.
    pub(crate) processes: Vec<Process>,
}

impl Host {
    pub(crate) fn new(boot: u8) -> Self {
        Self { boot, clock: 0, processes: Vec::new() }
    }

    pub(crate) fn boot_id(&self) -> &'static str {
        if self.boot == 0 { "boot-0" } else { "boot-1" }
    }

    fn position(&self, pid: i32) -> Result<usize, usize> {
        self.processes.binary_search_by(|process| process.name.pid.cmp(&pid))
    }

    /// The process that has this pid now, alive or a zombie.
    pub(crate) fn at(&self, pid: i32) -> Option<&Process> {
        self.position(pid).ok().and_then(|at| self.processes.get(at))
    }

    /// Is this very process alive? The truth, in other words than the program's own.
    pub(crate) fn alive(&self, name: Name) -> bool {
        name == PID_1 || self.at(name.pid).is_some_and(|process| process.name == name && process.phase != Phase::Zombie)
    }

    pub(crate) fn populated(&self, cgroup: &str) -> bool {
        self.processes.iter().any(|process| process.cgroup == Some(cgroup) && process.phase != Phase::Zombie)
    }

    pub(crate) fn spawn(&mut self, name: Name, cgroup: Option<&'static str>) {
        let process = Process { name, phase: Phase::Runs, cgroup };
        let at = self.processes.partition_point(|other| other.name.pid.cmp(&name.pid) == Ordering::Less);
        self.processes.insert(at, process);
    }

    pub(crate) fn set_phase(&mut self, pid: i32, phase: Phase) {
        if let Some(process) = self.position(pid).ok().and_then(|at| self.processes.get_mut(at)) {
            process.phase = phase;
        }
    }

    pub(crate) fn remove(&mut self, pid: i32) {
        self.processes.retain(|process| process.name.pid != pid);
    }

    /// What `/proc/PID/stat` says.
    pub(crate) fn seen(&self, pid: i32) -> Seen {
        if pid == PID_1.pid {
            return Seen::There { start: PID_1.start, state: 'S', threads: 1 };
        }
        let Some(process) = self.at(pid) else { return Seen::Gone };
        let (state, threads) = match process.phase {
            Phase::Runs => ('S', 1),
            Phase::Leaderless => ('Z', 2),
            Phase::Zombie => ('Z', 1),
        };
        Seen::There { start: process.name.start, state, threads }
    }

    /// `Processes::life` for a single pid namespace, with this host's clock and cgroups.
    pub(crate) fn life(&self, lease: &Lease) -> Life {
        if lease.expires.is_some_and(|end| self.clock > end) {
            return Life::Dead;
        }
        let populated = |cgroup: &str| if self.populated(cgroup) { Life::Live } else { Life::Dead };
        lease.holder.life(self.seen(lease.holder.pid)).or(|| lease.cgroup.as_deref().map_or(Life::Dead, populated))
    }

    /// `Processes::life_of_waiter`.
    pub(crate) fn life_of_waiter(&self, waiter: &Waiter) -> Life {
        if self.clock > waiter.until { Life::Dead } else { waiter.holder.life(self.seen(waiter.holder.pid)) }
    }
}
