//! What is true, whatever the ledger says: who holds which chips, who waits, in which order.
//!
//! Told in terms of very processes, never of pids and start times that might be taken for another's; the dead are dropped at once.

use neuron_container_runtime::chip::{ChipId, ChipSet, Inventory};
use neuron_container_runtime::cores::CoreRun;
use neuron_container_runtime::request::Want;

use crate::host::{Host, Name};

/// How many cores each chip has.
pub(crate) const CORES: u32 = 2;

/// Which lease: of which container, of its how manieth start, and whether a caller took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LeaseId {
    pub(crate) of: usize,
    pub(crate) start: u8,
    pub(crate) by_caller: bool,
}

impl LeaseId {
    /// As in the ledger.
    pub(crate) fn text(self) -> String {
        let mark = if self.by_caller { 'p' } else { 'w' };
        format!("{}{mark}{}", self.of, self.start)
    }
}

/// What a container is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Grant {
    pub(crate) lease: LeaseId,
    pub(crate) chips: ChipSet,
    /// First and number, where it is a part of the chips.
    pub(crate) cores: Option<(u32, u32)>,
    /// Did somebody else give it?
    pub(crate) adopted: bool,
}

impl Grant {
    /// Must both not be in use at once (I1)?
    pub(crate) fn meets(&self, other: &Self) -> bool {
        !self.adopted && !other.adopted && self.overlaps(other)
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        match (self.cores, other.cores) {
            (Some((first, len)), Some((start, count))) => first < start + count && start < first + len,
            _ => !self.chips.intersection(other.chips).is_empty(),
        }
    }

    pub(crate) fn core_run(&self) -> Option<CoreRun> {
        self.cores.and_then(|(first, len)| CoreRun::new(first, len))
    }
}

/// A grant, and on whom it hangs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tie {
    pub(crate) grant: Grant,
    pub(crate) container: &'static str,
    pub(crate) holder: Name,
    pub(crate) cgroup: Option<&'static str>,
    pub(crate) expires: Option<u64>,
    pub(crate) bound: bool,
}

impl Tie {
    fn holds(&self, host: &Host) -> bool {
        let in_time = self.expires.is_none_or(|end| host.clock <= end);
        in_time && (host.alive(self.holder) || self.cgroup.is_some_and(|cgroup| host.populated(cgroup)))
    }
}

/// Somebody in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Arrival {
    pub(crate) of: usize,
    pub(crate) process: Name,
    pub(crate) until: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Truth {
    /// The oldest first.
    pub(crate) ties: Vec<Tie>,
    /// Who came first is the first.
    pub(crate) arrivals: Vec<Arrival>,
    /// Has anybody been served before who came earlier and still waited?
    pub(crate) out_of_turn: bool,
}

impl Truth {
    pub(crate) fn drop_dead(&mut self, host: &Host) {
        self.ties.retain(|tie| tie.holds(host));
        self.arrivals.retain(|arrival| host.alive(arrival.process) && host.clock <= arrival.until);
    }

    pub(crate) fn leave(&mut self, of: usize) {
        self.arrivals.retain(|arrival| arrival.of != of);
    }

    /// Somebody is served.
    pub(crate) fn serve(&mut self, of: usize, tie: Tie) {
        self.out_of_turn |= !tie.grant.adopted && self.arrivals.first().is_some_and(|first| first.of != of);
        self.leave(of);
        self.ties.push(tie);
    }

    pub(crate) fn tie(&self, lease: LeaseId) -> Option<&Tie> {
        self.ties.iter().find(|tie| tie.grant.lease == lease)
    }

    /// A container's process becomes the holder, where that is allowed.
    pub(crate) fn bind(&mut self, lease: LeaseId, container: &'static str, init: Name, cgroup: Option<&'static str>) {
        let tie = self.ties.iter_mut().find(|tie| tie.grant.lease == lease && !tie.bound);
        if let Some(tie) = tie.filter(|tie| tie.container.is_empty() || tie.container == container) {
            *tie = Tie { grant: tie.grant, container, holder: init, cgroup, expires: None, bound: true };
        }
    }

    /// The wrapper goes on with a caller's lease, where that is allowed.
    pub(crate) fn take_over(&mut self, lease: LeaseId, container: &'static str, wrapper: Name) {
        let tie = self.ties.iter_mut().find(|tie| tie.grant.lease == lease && !tie.bound && tie.expires.is_some());
        if let Some(tie) = tie.filter(|tie| tie.container.is_empty() || tie.container == container) {
            *tie = Tie { grant: tie.grant, container, holder: wrapper, cgroup: None, expires: None, bound: false };
        }
    }

    /// Is this all that nobody holds?
    fn unheld(&self, chips: ChipSet) -> bool {
        self.ties.iter().all(|tie| tie.grant.chips.intersection(chips).is_empty())
    }

    /// May this core be given to somebody more?
    fn core_is_free(&self, core: u32) -> bool {
        let chip: ChipSet = ChipId::new(core / CORES).into_iter().collect();
        self.ties.iter().filter(|tie| !tie.grant.chips.intersection(chip).is_empty()).all(|tie| {
            let theirs = tie.grant.core_run();
            theirs.is_some_and(|run| !run.contains(core))
        })
    }

    /// Could this be had, by what is true?
    pub(crate) fn can_be_had(&self, want: Want, inventory: &Inventory) -> bool {
        let ids = inventory.ids();
        match want {
            Want::All => self.unheld(ids),
            Want::Ids(chips) => self.unheld(chips),
            Want::Any(count) => {
                ids.iter().filter_map(|first| ChipSet::run(first, count)).any(|run| ids.contains_all(run) && self.unheld(run))
            }
            Want::Cores(count) => ids.iter().any(|chip| {
                let base = chip.index() * CORES;
                (0..=CORES.saturating_sub(count)).any(|start| (0..count).all(|core| self.core_is_free(base + start + core)))
            }),
        }
    }
}
