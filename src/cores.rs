//! Parts of chips: runs of NeuronCores, and which of them a request gets.
//!
//! Pure. Cores are physical and numbered through the host, `chip id × cores of a chip + core`, as the driver books them. A chip is shared
//! by containers of one LNC (logical NeuronCore configuration) only: the Neuron runtime sets it for the whole chip.

use std::cmp::Reverse;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::chip::{ChipId, ChipSet, Health, Inventory};
use crate::select::{self, Choice, Held, Policy, Shortage};
use crate::words::count;

/// Consecutive physical cores, at least one. In the ledger: their numbers one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreRun {
    first: u32,
    len: u32,
}

impl CoreRun {
    /// The `len` cores from `first` on, if that is any and no host has more.
    #[must_use]
    pub fn new(first: u32, len: u32) -> Option<Self> {
        let end = first.checked_add(len)?;
        (len > 0 && end <= ChipId::LIMIT * 64).then_some(Self { first, len })
    }

    /// The lowest.
    #[must_use]
    pub fn first(self) -> u32 {
        self.first
    }

    /// How many.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(self) -> u32 {
        self.len
    }

    /// Have both a core in common?
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.first < other.first + other.len && other.first < self.first + self.len
    }

    /// Is this core among them?
    #[must_use]
    pub fn contains(self, core: u32) -> bool {
        (self.first..self.first + self.len).contains(&core)
    }
}

impl fmt::Display for CoreRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            1 => self.first.fmt(f),
            len => write!(f, "{}-{}", self.first, self.first + len - 1),
        }
    }
}

impl Serialize for CoreRun {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.first..self.first + self.len)
    }
}

impl<'de> Deserialize<'de> for CoreRun {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cores = Vec::<u32>::deserialize(deserializer)?;
        let run = cores.first().and_then(|first| Self::new(*first, u32::try_from(cores.len()).ok()?));
        run.filter(|run| (run.first..).zip(&cores).all(|(number, core)| number == *core))
            .ok_or_else(|| de::Error::custom(format!("{cores:?} are no consecutive cores")))
    }
}

/// The part of a chip, or of several, that a container holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Its cores.
    pub cores: CoreRun,
    /// How many physical cores make a logical one for it.
    pub lnc: u32,
}

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Logical cores.
    pub count: u32,
    /// How many physical cores make a logical one.
    pub lnc: u32,
    /// Physical cores of each chip of this host.
    pub of_chip: u32,
}

/// Chooses cores: on the shared chip where they fit best, else on a free one; more than a chip has, on consecutive free chips.
///
/// # Errors
/// [`Shortage`], with numbers and names.
pub fn select(inventory: &Inventory, held: &[Held], wanted: Wanted, policy: &Policy) -> Result<(Choice, Share), Shortage> {
    let Wanted { count: logical, lnc, of_chip } = wanted;
    let (chips, total) = (inventory.ids().len(), inventory.ids().len().saturating_mul(of_chip));
    let mut asked = count(logical, "NeuronCore");
    let need = logical.saturating_mul(lnc);
    if need > total && chips > 0 {
        return Err(Shortage::MoreThanHost { asked, total: total / lnc });
    }
    let sharing = Sharing { inventory, held, wanted, policy };
    let spans = need.div_ceil(of_chip);
    if spans > 1 {
        asked = format!("{asked} on {}", count(spans, "Neuron chip"));
    } else if let Some(place) = sharing.best_place(need) {
        let choice = Choice { chips: [place.chip].into_iter().collect(), warnings: Vec::new(), considered: Vec::new() };
        return Ok((choice, Share { cores: place.cores, lnc }));
    }
    if let Some(max) = policy.max_chips.filter(|max| spans > *max) {
        return Err(Shortage::OverLimit { asked, max });
    }
    match select::select_run(inventory, held, spans, asked, policy) {
        Ok(choice) => {
            let first = choice.chips.first().map_or(0, |first| first.index() * of_chip);
            // At least one core is wanted, and no host has more than a run can name.
            let cores = CoreRun::new(first, need).unwrap_or(CoreRun { first, len: 1 });
            Ok((choice, Share { cores, lnc }))
        }
        Err(Shortage::NotEnough { asked, taken, .. }) if spans == 1 => Err(sharing.shortage(asked, taken)),
        Err(shortage) => Err(shortage),
    }
}

struct Sharing<'a> {
    inventory: &'a Inventory,
    held: &'a [Held],
    wanted: Wanted,
    policy: &'a Policy,
}

/// Where cores could be given, and what is left of the chip then.
struct Place {
    chip: ChipId,
    cores: CoreRun,
    left: Vec<bool>,
}

impl Sharing<'_> {
    /// The place for so many physical cores on a chip that is shared already.
    fn best_place(&self, need: u32) -> Option<Place> {
        let places = self.shared().into_iter().filter(|(_, lnc, _)| *lnc == self.wanted.lnc).flat_map(|(chip, _, free)| {
            let base = chip.index() * self.wanted.of_chip;
            let starts = (0..self.wanted.of_chip).step_by(usize::try_from(self.wanted.lnc).unwrap_or(1));
            starts.filter_map(move |start| {
                let taken = |core: usize| (start..start + need).contains(&u32::try_from(core).unwrap_or(u32::MAX));
                let fits = start + need <= self.wanted.of_chip && free.iter().enumerate().all(|(core, free)| *free || !taken(core));
                let left = free.iter().enumerate().map(|(core, free)| *free && !taken(core)).collect();
                Some(Place { chip, cores: CoreRun::new(base + start, need)?, left }).filter(|_| fits)
            })
        });
        places.min_by_key(Place::cost)
    }

    /// The chips that containers share and that are well: each with its LNC and which of its cores are free.
    fn shared(&self) -> Vec<(ChipId, u32, Vec<bool>)> {
        let chips = self.inventory.chips.iter().filter(|chip| chip.health == Health::Ready);
        chips
            .filter(|chip| !self.policy.reserved.contains(chip.id))
            .filter_map(|chip| {
                let mut holders = self.held.iter().filter(|held| held.chips.contains(chip.id)).peekable();
                holders.peek()?;
                let shares: Vec<Share> = holders.map(|held| held.share).collect::<Option<_>>()?;
                let base = chip.id.index() * self.wanted.of_chip;
                let free = (base..base + self.wanted.of_chip).map(|core| !shares.iter().any(|share| share.cores.contains(core)));
                Some((chip.id, shares.first()?.lnc, free.collect()))
            })
            .collect()
    }

    /// Why no chip has room.
    fn shortage(&self, asked: String, taken: String) -> Shortage {
        let Wanted { lnc, of_chip, .. } = self.wanted;
        let shared = self.shared();
        let room = |free: &[bool]| longest(free);
        let need = self.wanted.count * lnc;
        let other: ChipSet = shared.iter().filter(|(_, size, free)| *size != lnc && room(free) >= need).map(|(chip, ..)| *chip).collect();
        if !other.is_empty() {
            return Shortage::OtherLnc { asked, lnc, chips: other.named("chip"), theirs: if lnc == 1 { 2 } else { 1 } };
        }
        let free: usize = shared.iter().map(|(_, _, free)| free.iter().filter(|free| **free).count()).sum();
        let most = shared.iter().map(|(_, _, free)| room(free)).max().unwrap_or(0);
        Shortage::NotEnoughCores {
            asked,
            free: u32::try_from(free).unwrap_or(u32::MAX) / lnc,
            total: self.inventory.ids().len() * of_chip / lnc,
            most: most / lnc,
            taken,
        }
    }
}

impl Place {
    /// Less is better: free cores left on the chip; then aligned blocks broken; then a start that is no multiple of the size, where
    /// that is a power of two; then a short longest stretch; then the number.
    fn cost(&self) -> impl Ord + use<> {
        let free = self.left.iter().filter(|free| **free).count();
        let whole = |size: usize| self.left.chunks(size).filter(|block| block.len() == size && block.iter().all(|free| *free)).count();
        let skew = self.cores.len().is_power_of_two() && !self.cores.first().is_multiple_of(self.cores.len());
        (free, Reverse([whole(4), whole(2)]), skew, Reverse(longest(&self.left)), self.cores.first())
    }
}

/// The longest stretch of free cores.
fn longest(free: &[bool]) -> u32 {
    let stretches = free.split(|free| !*free).map(<[bool]>::len);
    stretches.max().and_then(|longest| u32::try_from(longest).ok()).unwrap_or(0)
}


#[cfg(test)]
mod tests;
