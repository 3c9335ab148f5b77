//! Plays a stream of containers against a policy, and counts whom it refuses.

use neuron_container_runtime::chip::{Chip, ChipId, ChipSet, DeviceNumber, Health, Inventory};
use neuron_container_runtime::cores::Share;
use neuron_container_runtime::select::{Held, Policy, free};
use neuron_container_runtime::topology::InstanceType;

use crate::stream::{Ask, Visit, lnc};

/// The chips that a container gets, and its part of them where it shares them.
pub(crate) type Place = (ChipSet, Option<Share>);

/// A policy: where it puts what is asked for, nowhere if it refuses.
pub(crate) type Placer<'a> = &'a dyn Fn(&Room<'_>, Ask) -> Option<Place>;

/// What a policy sees: a host, and who holds what.
pub(crate) struct Room<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) held: &'a [Held],
    pub(crate) of_chip: u32,
    pub(crate) lnc: u32,
}

/// Who came, and who was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    pub(crate) came: u32,
    /// Refused: too little was free.
    pub(crate) full: u32,
    /// Refused though as much as was asked for was free.
    pub(crate) apart: u32,
}

/// A host of this type on which nothing runs.
pub(crate) fn host(kind: &InstanceType) -> Inventory {
    let chip = |minor| {
        let id = ChipId::new(minor)?;
        Some(Chip {
            id,
            number: DeviceNumber { major: 240, minor },
            cores: Some(kind.cores),
            linked: Some(kind.links.set(id, kind.chips)),
            architecture: Some(kind.architecture.clone()),
            health: Health::Ready,
            node: None,
        })
    };
    Inventory { chips: (0..kind.chips).filter_map(chip).collect(), instance_type: Some(kind.name.clone()), driver_version: None }
}

/// Lets the containers come and go. Who is refused does not come again.
///
/// # Panics
/// Where a policy gives what is not free.
pub(crate) fn play(kind: &InstanceType, visits: &[Visit], place: Placer<'_>) -> Count {
    let inventory = host(kind);
    let mut held: Vec<Held> = Vec::new();
    let mut ends: Vec<f64> = Vec::new();
    let mut count = Count::default();
    for visit in visits {
        let mut stays = ends.iter().map(|end| *end > visit.comes);
        held.retain(|_| stays.next().unwrap_or(false));
        ends.retain(|end| *end > visit.comes);
        let room = Room { inventory: &inventory, held: &held, of_chip: kind.cores, lnc: lnc(kind) };
        count.came += 1;
        match place(&room, visit.ask) {
            Some((chips, share)) => {
                assert!(room.may_give(chips, share), "{chips} {share:?} is not free: {held:?}");
                held.push(Held { chips, container: String::new(), pid: 1, since: String::new(), share });
                ends.push(visit.goes);
            }
            None if room.has(visit.ask) => count.apart += 1,
            None => count.full += 1,
        }
    }
    count
}

impl Room<'_> {
    /// Is as much free as is asked for, wherever it is?
    fn has(&self, ask: Ask) -> bool {
        match ask {
            Ask::Chips(chips) => free(self.inventory, self.held, &Policy::default()).len() >= chips,
            Ask::Cores(cores) => {
                let chips = self.inventory.ids().iter();
                let free: usize = chips.map(|chip| self.free_cores(chip).into_iter().filter(|free| *free).count()).sum();
                free >= (cores * self.lnc) as usize
            }
        }
    }

    /// Which cores of a chip are free; none where it is given whole.
    pub(crate) fn free_cores(&self, chip: ChipId) -> Vec<bool> {
        let base = chip.index() * self.of_chip;
        let holders = || self.held.iter().filter(|held| held.chips.contains(chip));
        let taken = |core| holders().any(|held| held.share.is_none_or(|share| share.cores.contains(core)));
        (base..base + self.of_chip).map(|core| !taken(core)).collect()
    }

    fn may_give(&self, chips: ChipSet, share: Option<Share>) -> bool {
        self.held.iter().filter(|held| !held.chips.intersection(chips).is_empty()).all(|held| match (held.share, share) {
            (Some(theirs), Some(ours)) => theirs.lnc == ours.lnc && !theirs.cores.overlaps(ours.cores),
            _ => false,
        })
    }
}
