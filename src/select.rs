//! Which chips a request gets: (inventory, who holds what, request) to a run of chips or a refusal.
//!
//! Pure, and a function in the strict sense: the same question always has the same answer. It knows nothing of files,
//! locks or time.
//!
//! A grant is a run of consecutive ascending ids, explicit ids too: the driver books cores at `cores_per_chip × host id of the
//! first node + core`, so with a gap a container would book its neighbour's cores (neuron_cdev.c, `ncdev_crwl_nc_range_mark`).

mod blocks;
mod shortage;

use std::fmt;

use crate::chip::{ChipId, ChipSet, Health, Inventory};
use crate::cores::Share;
use crate::request::{Want, in_words};
use crate::topology;

use blocks::Blocks;

pub use shortage::Shortage;

/// The most holders that a refusal names; `status` shows all.
const MOST_NAMED: usize = 6;

/// The administrator's word on what may be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Chips that are never granted.
    pub reserved: ChipSet,
    /// The most chips that one container may have.
    pub max_chips: Option<u32>,
    /// Must NeuronLink connect the chips of a grant?
    pub require_links: bool,
    /// Refuse counts that AWS's Kubernetes scheduler does not serve on a torus.
    pub strict_counts: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { reserved: ChipSet::EMPTY, max_chips: None, require_links: true, strict_counts: false }
    }
}

/// Chips that are taken, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The chips.
    pub chips: ChipSet,
    /// The container that holds them, as people call it.
    pub container: String,
    /// The process whose life is the lease's.
    pub pid: i32,
    /// Since when, for people.
    pub since: String,
    /// The part of the chips that it holds, where it shares them.
    pub share: Option<Share>,
}

/// The chips that a request gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Consecutive ids.
    pub chips: ChipSet,
    /// What the administrator should know about it.
    pub warnings: Vec<Warning>,
    /// The runs that a count could be served with, ascending; none where the chips were named.
    pub considered: Vec<Candidate>,
}

/// A run that a count could be served with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The run.
    pub run: ChipSet,
    /// What it spoils of the host's blocks, in [`Candidate::UNIT`]s: the least is taken.
    pub cost: u64,
    /// How many aligned blocks of 8, of 4 and of 2 free chips stay whole when it is taken: for people.
    pub leaves: [usize; 3],
    /// The length of the stretch of free chips that it is taken from.
    pub gap: u32,
}

impl Candidate {
    /// The cost of a free chip in a block of its own: fine enough for the blocks of twenty containers and more.
    pub const UNIT: u64 = 1 << 40;
}

/// A grant that is served though it may disappoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// A count or place that AWS's Kubernetes scheduler would not give.
    OddOnTorus(ChipSet),
    /// Explicit ids that NeuronLink does not connect.
    Unlinked(ChipSet),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OddOnTorus(chips) => {
                write!(f, "chips {chips} of a 4x4 torus: AWS's Kubernetes scheduler gives 1, a row of 4, a half of 8, or 16")
            }
            Self::Unlinked(chips) => write!(f, "chips {chips} are not connected by NeuronLink among themselves"),
        }
    }
}

/// The chips that may be given now.
#[must_use]
pub fn free(inventory: &Inventory, held: &[Held], policy: &Policy) -> ChipSet {
    Host { inventory, held, policy, torus: false }.free()
}

/// Chooses the chips for a request.
///
/// # Errors
/// [`Shortage`], with numbers and names.
pub fn select(inventory: &Inventory, held: &[Held], want: Want, policy: &Policy) -> Result<Choice, Shortage> {
    let host = Host { inventory, held, policy, torus: topology::is_torus(&inventory.chips) };
    let present = inventory.ids();
    let total = present.len();
    let asked = in_words(want, total);
    if total == 0 {
        return Err(Shortage::NoChips(in_words(want, 0).replace("all 0 Neuron chips", "all Neuron chips")));
    }
    let wanted = match want {
        Want::All => present.difference(policy.reserved).len(),
        Want::Any(number) => number,
        Want::Ids(ids) => ids.len(),
        Want::Cores(_) => 1,
    };
    if let Want::Ids(ids) = want
        && !present.contains_all(ids)
    {
        return Err(Shortage::NoSuchChip { asked, missing: ids.difference(present), present });
    }
    if wanted > total {
        return Err(Shortage::MoreThanHost { asked, total });
    }
    if let Some(max) = policy.max_chips.filter(|max| wanted > *max) {
        return Err(Shortage::OverLimit { asked, max });
    }
    match want {
        Want::Any(number) => host.any(number, asked),
        // The chip of a core; `cores` knows which part of it.
        Want::Cores(_) => host.any(1, asked),
        Want::All => host.exactly(present.difference(policy.reserved), asked, Named::All),
        Want::Ids(ids) => host.exactly(ids, asked, Named::ById),
    }
}

/// Chooses so many whole chips for who asked in other words.
///
/// # Errors
/// [`Shortage`].
pub fn select_run(inventory: &Inventory, held: &[Held], wanted: u32, asked: String, policy: &Policy) -> Result<Choice, Shortage> {
    if inventory.chips.is_empty() {
        return Err(Shortage::NoChips(asked));
    }
    Host { inventory, held, policy, torus: topology::is_torus(&inventory.chips) }.any(wanted, asked)
}

/// How the chips of an exact request were named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    All,
    ById,
}

struct Host<'a> {
    inventory: &'a Inventory,
    held: &'a [Held],
    policy: &'a Policy,
    torus: bool,
}

impl Host<'_> {
    fn any(&self, wanted: u32, asked: String) -> Result<Choice, Shortage> {
        let present = self.inventory.ids();
        if self.policy.strict_counts && self.torus && !matches!(wanted, 1 | 4 | 8 | 16) {
            return Err(Shortage::OddOnTorus(asked));
        }
        let free = self.free();
        if free.len() < wanted {
            let total = present.len();
            return Err(Shortage::NotEnough { asked, free: free.len(), total, taken: self.taken(present.difference(free)) });
        }
        let blocks = Blocks::new(self, free);
        let candidate =
            |run| Candidate { run, cost: blocks.cost(run), leaves: whole_blocks(free.difference(run)), gap: gap(free, run) };
        let considered: Vec<_> = runs_of(free, wanted).filter(|run| self.serves(*run)).map(candidate).collect();
        if let Some(best) = considered.iter().min_by_key(|of| (of.cost, of.gap, of.run.first())) {
            return Ok(Choice { chips: best.run, warnings: self.warnings(best.run), considered });
        }
        if !runs_of(present, wanted).any(|run| self.serves(run)) {
            let need = if runs_of(present, wanted).next().is_none() { "exist" } else { self.need(wanted) };
            return Err(Shortage::Unservable { asked, wanted, present, need });
        }
        let largest = free.runs().into_iter().map(ChipSet::len).max().unwrap_or(0);
        let taken = self.taken(present.difference(free));
        Err(if largest < wanted {
            Shortage::Apart { asked, wanted, free, largest, taken }
        } else {
            Shortage::Unlinked { asked, wanted, free, need: self.need(wanted), taken }
        })
    }

    fn exactly(&self, chips: ChipSet, asked: String, named: Named) -> Result<Choice, Shortage> {
        let present = self.inventory.ids();
        // What can never be had, before what cannot be had now.
        if chips.runs().len() > 1 {
            let first = chips.first().and_then(|first| ChipSet::run(first, chips.len())).unwrap_or(chips);
            let run = if present.contains_all(first) { first } else { present.runs().first().copied().unwrap_or(first) };
            return Err(Shortage::Gap { asked, run });
        }
        let wrong = chips.difference(self.free());
        if !wrong.is_empty() || chips.is_empty() {
            return Err(match named {
                Named::All => {
                    let free = self.free();
                    let taken = self.taken(present.difference(free));
                    Shortage::NotEnough { asked, free: free.len(), total: present.len(), taken }
                }
                Named::ById => {
                    let reasons: Vec<String> = wrong.iter().filter_map(|id| self.reason(id)).map(|why| why.in_full()).collect();
                    Shortage::Taken { asked, reasons: reasons.join("; ") }
                }
            });
        }
        if self.policy.strict_counts && self.torus && !torus_shape(chips) {
            return Err(Shortage::OddOnTorus(asked));
        }
        Ok(Choice { chips, warnings: self.warnings(chips), considered: Vec::new() })
    }

    /// The chips that may be given now.
    fn free(&self) -> ChipSet {
        self.inventory.ids().iter().filter(|id| self.reason(*id).is_none()).collect()
    }

    /// Why a chip is not free.
    fn reason(&self, id: ChipId) -> Option<Reason<'_>> {
        let chip = self.inventory.chip(id)?;
        match &chip.health {
            Health::Missing(why) | Health::Unhealthy(why) | Health::Unknown(why) => return Some(Reason::Ill(id, why)),
            Health::Ready | Health::Used(_) => {}
        }
        let holders: Vec<_> = self.held.iter().filter(|held| held.chips.contains(id)).collect();
        if !holders.is_empty() {
            return Some(Reason::Held(id, holders));
        }
        if let Health::Used(why) = &chip.health {
            return Some(Reason::Ill(id, why));
        }
        self.policy.reserved.contains(id).then_some(Reason::Reserved(id))
    }

    /// Who or what has these chips, in short: `0-7 held by web-1, 8 resetting`.
    fn taken(&self, chips: ChipSet) -> String {
        let mut clauses: Vec<(String, ChipSet)> = Vec::new();
        for id in chips.iter() {
            let Some(words) = self.reason(id).map(|why| why.in_short()) else { continue };
            match clauses.iter_mut().find(|(clause, _)| *clause == words) {
                Some((_, ids)) => {
                    ids.insert(id);
                }
                None => clauses.push((words, [id].into_iter().collect())),
            }
        }
        let all = clauses.len();
        let mut clauses: Vec<String> = clauses.into_iter().take(MOST_NAMED).map(|(words, ids)| format!("{ids} {words}")).collect();
        if all > MOST_NAMED {
            clauses.push(format!("{} more", all - MOST_NAMED));
        }
        clauses.join(", ")
    }

    /// May this run be chosen for a count?
    fn serves(&self, run: ChipSet) -> bool {
        !self.policy.require_links
            || topology::connected(&self.inventory.chips, run) == Some(true)
                && !(self.torus && matches!(run.len(), 4 | 8) && !torus_shape(run))
    }

    /// What a run lacks where [`Self::serves`] says no.
    fn need(&self, wanted: u32) -> &'static str {
        let unknown = || self.inventory.chips.iter().any(|chip| chip.linked.is_none());
        match (self.torus, wanted) {
            (true, 4) => "are a row of the 4x4 torus (0-3, 4-7, 8-11, 12-15)",
            (true, 8) => "are a half of the 4x4 torus (0-7, 8-15)",
            _ if unknown() => "are known to be connected by NeuronLink (sysfs connected_devices is empty, the instance type not known)",
            _ => "are connected by NeuronLink",
        }
    }

    fn warnings(&self, chips: ChipSet) -> Vec<Warning> {
        let unlinked = topology::connected(&self.inventory.chips, chips) != Some(true) && self.policy.require_links;
        [unlinked.then_some(Warning::Unlinked(chips)), (self.torus && !torus_shape(chips)).then_some(Warning::OddOnTorus(chips))]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn verb(holders: &[&Held]) -> &'static str {
    if holders.iter().all(|held| held.share.is_some()) { "shared" } else { "held" }
}

/// Why a chip is not free.
enum Reason<'a> {
    Ill(ChipId, &'a str),
    Held(ChipId, Vec<&'a Held>),
    Reserved(ChipId),
}

impl Reason<'_> {
    fn in_short(&self) -> String {
        match self {
            Self::Ill(_, why) => (*why).to_owned(),
            Self::Held(_, holders) => {
                let names: Vec<_> = holders.iter().map(|held| &*held.container).collect();
                format!("{} by {}", verb(holders), names.join(" and "))
            }
            Self::Reserved(_) => "reserved".to_owned(),
        }
    }

    fn in_full(&self) -> String {
        match self {
            Self::Ill(id, why) => format!("chip {id} is {why}"),
            Self::Held(id, holders) => {
                let each = |held: &&Held| format!("{} (pid {}, since {})", held.container, held.pid, held.since);
                let names: Vec<_> = holders.iter().map(each).collect();
                format!("chip {id} is {} by {}", verb(holders), names.join(" and "))
            }
            Self::Reserved(id) => format!("chip {id} is reserved (reserved-chips in the settings)"),
        }
    }
}

/// Is this what AWS's Kubernetes scheduler gives on a 4×4 torus?
fn torus_shape(chips: ChipSet) -> bool {
    let aligned = |size: u32| chips.first().is_some_and(|first| first.index() % size == 0);
    match chips.len() {
        1 | 16 => true,
        size @ (4 | 8) => aligned(size),
        _ => false,
    }
}

/// The runs of `wanted` consecutive ids among these.
fn runs_of(chips: ChipSet, wanted: u32) -> impl Iterator<Item = ChipSet> {
    chips.iter().filter_map(move |first| ChipSet::run(first, wanted)).filter(move |run| chips.contains_all(*run))
}

/// How many aligned blocks of 8, of 4 and of 2 chips are whole among these.
fn whole_blocks(free: ChipSet) -> [usize; 3] {
    [8, 4, 2].map(|size| runs_of(free, size).filter(|run| run.first().is_some_and(|first| first.index() % size == 0)).count())
}

/// The length of the stretch of free chips that a run is taken from.
fn gap(free: ChipSet, run: ChipSet) -> u32 {
    free.runs().into_iter().find(|stretch| stretch.contains_all(run)).map_or(0, ChipSet::len)
}

#[cfg(test)]
mod tests;
