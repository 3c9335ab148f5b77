//! What a run spoils: the rule by which one run is taken rather than another.
//!
//! Pure. A block is a run of 2, 4, 8, … chips that a container could be given if the host were empty, and that begins at a multiple of half
//! its size: a later container finds room where a block is free, or soon will be. It is worth its size; a quarter of that where it does not
//! begin at a multiple of its whole size, for such blocks lie across others; and again a quarter for every container that is in it, for all
//! of them must end before it is free. It is worth nothing where a chip is not free and no container's, for nobody knows when that ends.
//! A run costs what the blocks are worth that it touches. So a container is put where others are already, and whole blocks stay whole.
//!
//! docs/placement.md says how this compares with other rules.

use super::{Candidate, Host};
use crate::chip::{ChipId, ChipSet};

/// The blocks of a host, each with its worth.
pub(super) struct Blocks(Vec<(ChipSet, u64)>);

impl Blocks {
    pub(super) fn new(host: &Host<'_>, free: ChipSet) -> Self {
        let present = host.inventory.ids();
        let lost = host.held.iter().fold(present.difference(free), |lost, held| lost.difference(held.chips));
        let sizes = (1..=ChipId::LIMIT.ilog2()).map(|exponent| 1 << exponent).take_while(|size| *size <= present.len());
        let worth = |first: ChipId, size: u32| {
            let block = ChipSet::run(first, size).filter(|block| present.contains_all(*block) && block.intersection(lost).is_empty())?;
            let holders = host.held.iter().filter(|held| !held.chips.intersection(block).is_empty()).count();
            let quarters = holders + usize::from(!first.index().is_multiple_of(size));
            host.serves(block).then(|| (block, (0..quarters).fold(u64::from(size) * Candidate::UNIT, |worth, _| worth / 4)))
        };
        let of_size = |size: u32| {
            let firsts = present.iter().filter(move |first| first.index().is_multiple_of(size / 2));
            firsts.filter_map(move |first| worth(first, size))
        };
        Self(sizes.flat_map(of_size).collect())
    }

    /// What a run would spoil.
    pub(super) fn cost(&self, run: ChipSet) -> u64 {
        self.0.iter().filter(|(block, _)| !block.intersection(run).is_empty()).map(|(_, worth)| worth).sum()
    }
}
