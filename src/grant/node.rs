//! A node of a grant, and how the hook's arguments spell it.

use std::fmt;
use std::str::FromStr;

use crate::chip::{ChipId, DeviceNumber, HostNode};

/// Where the nodes of EFA are, below `/dev` (rdma-core).
pub const EFA_FOLDER: &str = "infiniband";
/// What their names begin with.
pub const EFA_NAME: &str = "uverbs";
/// How this tool calls such an adapter.
const EFA: &str = "efa";

/// What a container is given a node of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A chip, by its host index.
    Chip(ChipId),
    /// An Elastic Fabric Adapter, by N of `/dev/infiniband/uverbsN`.
    Efa(u32),
}

impl Device {
    /// The host's node, below its `/dev`.
    #[must_use]
    pub fn node_name(self) -> String {
        match self {
            Self::Chip(chip) => chip.node_name(),
            Self::Efa(index) => format!("{EFA_FOLDER}/{EFA_NAME}{index}"),
        }
    }

    /// The chip, where it is one.
    #[must_use]
    pub fn chip(self) -> Option<ChipId> {
        match self {
            Self::Chip(chip) => Some(chip),
            Self::Efa(_) => None,
        }
    }
}

/// `3`, `efa0`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chip(chip) => chip.fmt(f),
            Self::Efa(index) => write!(f, "{EFA}{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |text: &str| text.parse().map_err(|_| ());
        match text.strip_prefix(EFA) {
            Some(index) => Ok(Self::Efa(number(index)?)),
            None => Ok(Self::Chip(ChipId::new(number(text)?).ok_or(())?)),
        }
    }
}

/// A node as a container is to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it is the node of.
    pub device: Device,
    /// The path in the container.
    pub path: String,
    /// Its numbers.
    pub number: DeviceNumber,
    /// The host's node that it shows.
    pub host: HostNode,
}

impl Node {
    /// `DEVICE=PATH=MAJOR:MINOR`, as the hook's arguments have it.
    #[must_use]
    pub fn to_argument(&self) -> String {
        argument(self.device, &self.path, self.number)
    }
}

/// `DEVICE=PATH=MAJOR:MINOR`.
#[must_use]
pub fn argument(device: Device, path: &str, number: DeviceNumber) -> String {
    format!("{device}={path}={number}")
}

/// Reads `DEVICE=PATH=MAJOR:MINOR`.
#[must_use]
pub fn parse_argument(text: &str) -> Option<(Device, &str, DeviceNumber)> {
    let (device, rest) = text.split_once('=')?;
    let (path, number) = rest.rsplit_once('=')?;
    Some((device.parse().ok()?, path, number.parse().ok()?))
}
