//! The chips of a host: their ids, sets of ids, and the inventory that discovery fills in.
//!
//! Pure. It knows nothing of leases: whether a healthy chip is *free* is decided in `select`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The index N of `/dev/neuronN` on the host, 0 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChipId(u8);

impl ChipId {
    /// How many chips the driver can serve: ids are 0 to 63 (neuron_cdev.c, `NEURON_MAX_DEV_NODES`).
    pub const LIMIT: u32 = 64;

    /// The id, if it is one that the driver can give.
    #[must_use]
    pub fn new(index: u32) -> Option<Self> {
        u8::try_from(index).ok().filter(|id| u32::from(*id) < Self::LIMIT).map(Self)
    }

    /// The index N of `/dev/neuronN`.
    #[must_use]
    pub fn index(self) -> u32 {
        u32::from(self.0)
    }

    /// The name of the chip's device node on the host, without a folder.
    #[must_use]
    pub fn node_name(self) -> String {
        format!("neuron{}", self.0)
    }
}

impl fmt::Display for ChipId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ChipId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(self.0)
    }
}

impl<'de> Deserialize<'de> for ChipId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let index = u32::deserialize(deserializer)?;
        Self::new(index).ok_or_else(|| de::Error::custom(format!("chip id {index} is beyond 63")))
    }
}

/// A set of chips. Shown as AWS writes lists: `0-3,8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct ChipSet(u64);

impl ChipSet {
    /// The set without a chip.
    pub const EMPTY: Self = Self(0);

    /// The `len` consecutive chips from `first` on, if ids reach that far.
    #[must_use]
    pub fn run(first: ChipId, len: u32) -> Option<Self> {
        let end = first.index().checked_add(len).filter(|end| *end <= ChipId::LIMIT)?;
        Some((first.index()..end).filter_map(ChipId::new).collect())
    }

    /// Adds a chip; false if it was in the set already.
    pub fn insert(&mut self, id: ChipId) -> bool {
        let new = !self.contains(id);
        self.0 |= 1 << id.0;
        new
    }

    /// Is the chip in the set?
    #[must_use]
    pub fn contains(self, id: ChipId) -> bool {
        self.0 & (1 << id.0) != 0
    }

    /// Are all chips of `other` in this set?
    #[must_use]
    pub fn contains_all(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// The number of chips.
    #[must_use]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Is there no chip in the set?
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The chips of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The chips that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The chips of this set that are not in `other`.
    #[must_use]
    pub fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The lowest id.
    #[must_use]
    pub fn first(self) -> Option<ChipId> {
        self.iter().next()
    }

    /// The ids, ascending.
    pub fn iter(self) -> impl Iterator<Item = ChipId> {
        (0..64u8).filter(move |bit| self.0 & (1 << bit) != 0).map(ChipId)
    }

    /// The stretches of consecutive ids, ascending.
    #[must_use]
    pub fn runs(self) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        let mut before = None;
        for id in self.iter() {
            match runs.last_mut() {
                Some(run) if before == Some(id.0.wrapping_sub(1)) => run.insert(id),
                _ => {
                    runs.push(Self::from_iter([id]));
                    true
                }
            };
            before = Some(id.0);
        }
        runs
    }
}

impl FromIterator<ChipId> for ChipSet {
    fn from_iter<I: IntoIterator<Item = ChipId>>(ids: I) -> Self {
        Self(ids.into_iter().fold(0, |bits, id| bits | (1 << id.0)))
    }
}

impl ChipSet {
    /// `chip 3`, `chips 0-3`.
    #[must_use]
    pub fn named(self, noun: &str) -> String {
        format!("{noun}{} {self}", if self.len() == 1 { "" } else { "s" })
    }
}

impl fmt::Display for ChipSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, run) in self.runs().into_iter().enumerate() {
            let separator = if position == 0 { "" } else { "," };
            let (first, last) = (run.0.trailing_zeros(), 63_u32.saturating_sub(run.0.leading_zeros()));
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for ChipSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for ChipSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<ChipId>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// The major and minor number of a character device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Names the driver: dynamic for Neuron, so never assumed.
    pub major: u32,
    /// The driver's own index of the device.
    pub minor: u32,
}

impl DeviceNumber {
    /// That of another device of the same driver.
    #[must_use]
    pub fn of_minor(self, minor: u32) -> Self {
        Self { minor, ..self }
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl std::str::FromStr for DeviceNumber {
    type Err = ();

    /// Reads `MAJOR:MINOR` as sysfs `dev` has it, without the newline.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once(':').ok_or(())?;
        Ok(Self { major: major.parse().map_err(|_| ())?, minor: minor.parse().map_err(|_| ())? })
    }
}

/// Whether a chip can be opened, as far as the host tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// sysfs `reset` reads 1, or the driver does not tell at all.
    Ready,
    /// There is no node at `/dev/neuronN`, or it is not this chip's; the words say which.
    Missing(String),
    /// sysfs `reset` reads something other than 1; the words say what that means.
    Unhealthy(String),
    /// Ready, but a process has it open that no lease covers; the words say which.
    Used(String),
    /// This process may not read what would tell; the words say which file and why.
    Unknown(String),
}

/// The node of a chip on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostNode {
    /// Permission bits, `0o666` where AWS's udev rule is in force.
    pub mode: u32,
    /// The owner's user id.
    pub uid: u32,
    /// The owner's group id.
    pub gid: u32,
}

/// One Neuron device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chip {
    /// N of `/dev/neuronN`.
    pub id: ChipId,
    /// The numbers of its node.
    pub number: DeviceNumber,
    /// Physical NeuronCores; `None` where neither sysfs nor the instance type tells.
    pub cores: Option<u32>,
    /// The chips that NeuronLink connects it to; `None` where neither sysfs nor the instance type tells.
    pub linked: Option<ChipSet>,
    /// The driver's name for the device, such as `Trainium1`.
    pub architecture: Option<String>,
    /// Whether it can be opened.
    pub health: Health,
    /// Its node in the host's `/dev`, where there is one.
    pub node: Option<HostNode>,
}

/// The chips of this host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    /// Ascending by id.
    pub chips: Vec<Chip>,
    /// EC2's name of the instance type, from DMI.
    pub instance_type: Option<String>,
    /// The version of the loaded driver.
    pub driver_version: Option<String>,
}

impl Inventory {
    /// The ids of all chips.
    #[must_use]
    pub fn ids(&self) -> ChipSet {
        self.chips.iter().map(|chip| chip.id).collect()
    }

    /// The chip with this id.
    #[must_use]
    pub fn chip(&self, id: ChipId) -> Option<&Chip> {
        self.chips.iter().find(|chip| chip.id == id)
    }

    /// The chip whose node has these numbers.
    #[must_use]
    pub fn by_number(&self, number: DeviceNumber) -> Option<&Chip> {
        self.chips.iter().find(|chip| chip.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u32]) -> ChipSet {
        ids.iter().map(|id| ChipId::new(*id).unwrap()).collect()
    }

    #[test]
    fn a_set_is_shown_as_runs_and_single_ids() {
        for (ids, shown) in [
            (&[][..], ""),
            (&[0], "0"),
            (&[63], "63"),
            (&[0, 1, 2, 3], "0-3"),
            (&[1, 3, 8, 12], "1,3,8,12"),
            (&[0, 2, 3, 4, 10, 62, 63], "0,2-4,10,62-63"),
        ] {
            assert_eq!(set(ids).to_string(), shown);
        }
    }

    #[test]
    fn a_run_ends_where_ids_end() {
        let last = ChipId::new(63).unwrap();
        assert_eq!(ChipSet::run(last, 1), Some(set(&[63])));
        assert_eq!(ChipSet::run(last, 2), None);
        assert_eq!(ChipSet::run(ChipId::new(0).unwrap(), 64).map(ChipSet::len), Some(64));
        assert_eq!(ChipId::new(64), None);
    }

    #[test]
    fn device_numbers_are_two_plain_numbers() {
        assert_eq!("240:12".parse(), Ok(DeviceNumber { major: 240, minor: 12 }));
        for junk in ["", "240", "240:", ":1", "a:b", "240:1:2", "-1:0", "240:1 "] {
            assert!(junk.parse::<DeviceNumber>().is_err(), "{junk}");
        }
    }
}
