//! The refusals, each with its own words and numbers.

use thiserror::Error;

use crate::chip::ChipSet;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Shortage {
    /// No chip at all.
    #[error(
        "asked for {0}, this host has none: load the driver (aws-neuronx-dkms), or start the container on an instance with Neuron chips"
    )]
    NoChips(String),
    /// More than there are.
    #[error("asked for {asked}, this host has {total}: ask for fewer, or use a larger instance")]
    MoreThanHost {
        /// The request in words.
        asked: String,
        /// Chips of the host.
        total: u32,
    },
    /// An id beyond the host's.
    #[error("asked for {asked}, this host has no chip {missing}: its chips are {present}")]
    NoSuchChip {
        /// The request in words.
        asked: String,
        /// The ids that it has not.
        missing: ChipSet,
        /// The ids that it has.
        present: ChipSet,
    },
    /// More than one container may have.
    #[error("asked for {asked}, the settings allow {max} for one container: ask for fewer, or raise max-chips")]
    OverLimit {
        /// The request in words.
        asked: String,
        /// The limit.
        max: u32,
    },
    /// A count that the settings do not serve on this topology.
    #[error(
        "asked for {0}, a 4x4 torus serves 1, a row of 4 (0-3, 4-7, 8-11, 12-15), a half of 8 (0-7, 8-15), or 16: ask for one of these, or set strict-counts = false"
    )]
    OddOnTorus(String),
    /// Chips with a gap between them.
    #[error(
        "asked for {asked}, these are not consecutive: the driver books the cores of a container on consecutive chips; ask for a run such as {run}"
    )]
    Gap {
        /// The request in words.
        asked: String,
        /// A run of the same length.
        run: ChipSet,
    },
    /// Too few are free.
    #[error("asked for {asked}, {free} of {total} {} free: {taken}; neuron-ctk status shows who holds them", if *free == 1 { "is" } else { "are" })]
    NotEnough {
        /// The request in words.
        asked: String,
        /// Free chips.
        free: u32,
        /// Chips of the host.
        total: u32,
        /// Who or what has the others.
        taken: String,
    },
    /// Enough are free, but apart.
    #[error("asked for {asked}, {} free ({}) but no {wanted} consecutive ones: largest run is {largest}; wait for one of {taken}", free.len(), listed(*free))]
    Apart {
        /// The request in words.
        asked: String,
        /// How many.
        wanted: u32,
        /// The free chips.
        free: ChipSet,
        /// The longest run among them.
        largest: u32,
        /// Who or what has the others.
        taken: String,
    },
    /// A long enough run is free, but not one that is connected, or not a row or half.
    #[error("asked for {asked}, {} free ({free}) but no {wanted} consecutive ones that {need}; wait for one of {taken}", free.len())]
    Unlinked {
        /// The request in words.
        asked: String,
        /// How many.
        wanted: u32,
        /// The free chips.
        free: ChipSet,
        /// What is missing.
        need: &'static str,
        /// Who or what has the others.
        taken: String,
    },
    /// Not to be had even on an empty host.
    #[error(
        "asked for {asked}, but of this host's chips ({present}) no {wanted} consecutive ones {need}: ask for fewer, or set require-links = false for workers that do not talk to each other"
    )]
    Unservable {
        /// The request in words.
        asked: String,
        /// How many.
        wanted: u32,
        /// The chips of the host.
        present: ChipSet,
        /// What is missing.
        need: &'static str,
    },
    /// No chip has room for so many cores.
    #[error("asked for {asked}, {free} of {total} {} free, at most {most} together on one chip: {taken}; neuron-ctk status shows who holds them", if *free == 1 { "is" } else { "are" })]
    NotEnoughCores {
        /// The request in words.
        asked: String,
        /// Free logical cores, on chips that are shared.
        free: u32,
        /// Logical cores of the host.
        total: u32,
        /// The longest stretch of free ones on one chip.
        most: u32,
        /// Who or what has the chips.
        taken: String,
    },
    /// A chip has room, but is set to another LNC.
    #[error("asked for {asked} of LNC {lnc}, no chip is free and {chips} with room is shared by containers of LNC {theirs}: set NEURON_LOGICAL_NC_CONFIG={theirs} in this container too, or wait for a free chip")]
    OtherLnc {
        /// The request in words.
        asked: String,
        /// The LNC that is wanted.
        lnc: u32,
        /// The chips that have room.
        chips: String,
        /// Their LNC.
        theirs: u32,
    },
    /// Others came first.
    #[error("asked for {asked}, but {first} waits before it for {request}: wait in line, too (annotation aws.amazon.com/neuron.wait=30s or AWS_NEURON_WAIT=30s), or try again")]
    Queued {
        /// The request in words.
        asked: String,
        /// Who waits, and how many more.
        first: String,
        /// What the first one wants.
        request: String,
    },
    /// Chips asked for by id that are taken, reserved or not well.
    #[error("asked for {asked}: {reasons}")]
    Taken {
        /// The request in words.
        asked: String,
        /// A clause for each.
        reasons: String,
    },
}

impl Shortage {
    /// May time bring what is asked for?
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NotEnough { .. }
            | Self::Apart { .. }
            | Self::Unlinked { .. }
            | Self::NotEnoughCores { .. }
            | Self::OtherLnc { .. }
            | Self::Queued { .. }
            | Self::Taken { .. } => true,
            Self::NoChips(_)
            | Self::MoreThanHost { .. }
            | Self::NoSuchChip { .. }
            | Self::OverLimit { .. }
            | Self::OddOnTorus(_)
            | Self::Gap { .. }
            | Self::Unservable { .. } => false,
        }
    }
}

/// The ids one by one, as a refusal shows them.
fn listed(chips: ChipSet) -> String {
    chips.to_string().replace(',', ", ")
}
