//! The policies that are compared. All give only what the program holds to be possible; they differ in which of it they take.

use neuron_container_runtime::chip::{ChipId, ChipSet};
use neuron_container_runtime::cores::{self, CoreRun, Share, Wanted};
use neuron_container_runtime::request::Want;
use neuron_container_runtime::select::{self, Candidate, Policy};

use crate::play::{Place, Room};
use crate::stream::Ask;

/// The program's own choice.
pub(crate) fn ours(room: &Room<'_>, ask: Ask) -> Option<Place> {
    match ask {
        Ask::Chips(chips) => Some((select::select(room.inventory, room.held, Want::Any(chips), &Policy::default()).ok()?.chips, None)),
        Ask::Cores(count) => {
            let wanted = Wanted { count, lnc: room.lnc, of_chip: room.of_chip };
            let (choice, share) = cores::select(room.inventory, room.held, wanted, &Policy::default()).ok()?;
            Some((choice.chips, Some(share)))
        }
    }
}

/// The possible run with the lowest id; cores on the lowest chip with room, shared or free, from its lowest core on.
pub(crate) fn first_fit(room: &Room<'_>, ask: Ask) -> Option<Place> {
    match ask {
        Ask::Chips(chips) => Some((possible(room, chips)?.first()?.run, None)),
        Ask::Cores(count) => room.inventory.ids().iter().find_map(|chip| lowest_cores(room, chip, count * room.lnc)),
    }
}

/// The runs that so many chips could be given as, ascending.
pub(crate) fn possible(room: &Room<'_>, chips: u32) -> Option<Vec<Candidate>> {
    Some(select::select(room.inventory, room.held, Want::Any(chips), &Policy::default()).ok()?.considered)
}

fn lowest_cores(room: &Room<'_>, chip: ChipId, need: u32) -> Option<Place> {
    let free = room.free_cores(chip);
    let starts = (0..=room.of_chip.checked_sub(need)?).filter(|start| start % room.lnc == 0);
    let start = starts.into_iter().find(|start| free.iter().skip(*start as usize).take(need as usize).all(|free| *free))?;
    let share = Share { cores: CoreRun::new(chip.index() * room.of_chip + start, need)?, lnc: room.lnc };
    Some(([chip].into_iter().collect(), Some(share)))
}

/// A rule that was tried: the run that costs least is taken, then the smallest gap, then the lowest id.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    cost: fn(&Room<'_>, &Candidate) -> u64,
}

/// What was tried, the program's rule among it.
pub(crate) const TRIED: &[Rule] = &[
    Rule { name: "whole blocks of 8, 4, 2 (the rule before)", cost: |_, of| broken(of) },
    Rule { name: "the same, then an aligned start", cost: |_, of| 2 * broken(of) + u64::from(skewed(of.run)) },
    Rule { name: "aligned blocks, a half for each container", cost: |room, of| spoiled(room, of.run, 2, Blocks::Aligned) },
    Rule { name: "aligned blocks, a quarter", cost: |room, of| spoiled(room, of.run, 4, Blocks::Aligned) },
    Rule { name: "aligned blocks, an eighth", cost: |room, of| spoiled(room, of.run, 8, Blocks::Aligned) },
    Rule { name: "blocks from every id on, a quarter", cost: |room, of| spoiled(room, of.run, 4, Blocks::FromEveryId) },
    Rule { name: "aligned blocks, and those half a size on at a quarter (ours)", cost: |_, of| of.cost },
];

impl Rule {
    pub(crate) fn place(&self, room: &Room<'_>, ask: Ask) -> Option<Place> {
        let best = |chips| Some(possible(room, chips)?.into_iter().min_by_key(|of| ((self.cost)(room, of), of.gap, of.run.first()))?.run);
        match ask {
            Ask::Chips(chips) => Some((best(chips)?, None)),
            Ask::Cores(count) => {
                let (chips, share) = ours(room, ask)?;
                if room.held.iter().any(|held| held.chips.contains_all(chips)) {
                    return Some((chips, share));
                }
                lowest_cores(room, best(1)?.first()?, count * room.lnc)
            }
        }
    }
}

fn broken(of: &Candidate) -> u64 {
    of.leaves.iter().fold(0, |cost, whole| cost * 100 + (99 - *whole as u64))
}

fn skewed(run: ChipSet) -> bool {
    run.len().is_power_of_two() && run.first().is_some_and(|first| !first.index().is_multiple_of(run.len()))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    Aligned,
    FromEveryId,
}

fn spoiled(room: &Room<'_>, run: ChipSet, part: u64, blocks: Blocks) -> u64 {
    let present = room.inventory.ids();
    let of_size = |size: u32| {
        let step = if blocks == Blocks::Aligned { size as usize } else { 1 };
        let all = (0..present.len()).step_by(step).filter_map(move |first| ChipSet::run(ChipId::new(first)?, size));
        let touched = all.filter(|block| present.contains_all(*block) && !block.intersection(run).is_empty());
        let worth = |block: ChipSet| {
            let holders = room.held.iter().filter(|held| !held.chips.intersection(block).is_empty());
            holders.fold(u64::from(size) * Candidate::UNIT, |worth, _| worth / part)
        };
        touched.map(worth).sum::<u64>()
    };
    [2, 4, 8, 16].map(of_size).into_iter().sum()
}
