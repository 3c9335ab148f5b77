//! Instance types, and how NeuronLink connects their chips.
//!
//! Pure. The table is `data/instance-types.toml`; it is parsed only where sysfs does not tell what the host is made of.

use serde::Deserialize;

use crate::chip::{Chip, ChipId, ChipSet};

/// How the chips of an instance are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Links {
    /// One chip.
    None,
    /// Each chip with the one before and after it.
    Line,
    /// A line whose ends are connected.
    Ring,
    /// Sixteen chips in four rows and four columns, both closed to rings; device = 4 · row + column.
    #[serde(rename = "torus-4x4")]
    Torus4x4,
}

impl Links {
    /// The chips that `id` is connected to among `count` chips, in the driver's order (sysfs `connected_devices`).
    #[must_use]
    pub fn of(self, id: ChipId, count: u32) -> Vec<ChipId> {
        let index = id.index();
        let around = |step: u32| (index + step) % count.max(1);
        let neighbours = match self {
            Self::None => vec![],
            Self::Line => [index.checked_sub(1), Some(index + 1).filter(|next| *next < count)].into_iter().flatten().collect(),
            Self::Ring => vec![around(count.saturating_sub(1)), around(1)],
            Self::Torus4x4 => {
                let (row, column) = (index / 4, index % 4);
                vec![(row + 3) % 4 * 4 + column, row * 4 + (column + 3) % 4, (row + 1) % 4 * 4 + column, row * 4 + (column + 1) % 4]
            }
        };
        let mut seen = ChipSet::EMPTY;
        neighbours.into_iter().filter_map(ChipId::new).filter(|other| *other != id && seen.insert(*other)).collect()
    }

    /// The same, in no order.
    #[must_use]
    pub fn set(self, id: ChipId, count: u32) -> ChipSet {
        self.of(id, count).into_iter().collect()
    }
}

/// A row of the table of instance types.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct InstanceType {
    /// EC2's name, as DMI `product_name` has it.
    #[serde(rename = "type")]
    pub name: String,
    /// Neuron devices of the instance.
    pub chips: u32,
    /// Physical NeuronCores of one chip.
    pub cores: u32,
    /// How the chips are connected.
    pub links: Links,
    /// The driver's name for the device (sysfs `info/architecture/device_name`).
    pub architecture: String,
    /// vCPUs of the instance.
    pub vcpu: u32,
    /// Memory of the instance, GiB.
    pub memory_gib: u32,
}

/// Every instance type that carries Neuron chips.
///
/// # Panics
/// Never: the table is compiled in, and a test parses it.
#[must_use]
pub fn instance_types() -> Vec<InstanceType> {
    #[derive(Deserialize)]
    struct Table {
        instance: Vec<InstanceType>,
    }
    #[expect(clippy::expect_used, reason = "the table is compiled in, and a test parses it")]
    let table: Table = toml::from_str(include_str!("../data/instance-types.toml")).expect("data/instance-types.toml");
    table.instance
}

/// The row of this instance type.
#[must_use]
pub fn instance_type(name: &str) -> Option<InstanceType> {
    instance_types().into_iter().find(|row| row.name == name)
}

/// Does NeuronLink connect these chips among themselves? `None` where the links of one of them are not known.
///
/// A link counts in both directions, whichever of the two chips names it.
#[must_use]
pub fn connected(chips: &[Chip], run: ChipSet) -> Option<bool> {
    if run.len() < 2 {
        return Some(true);
    }
    let mut links = Vec::new();
    for chip in chips.iter().filter(|chip| run.contains(chip.id)) {
        links.push((chip.id, chip.linked?));
    }
    let mut reached: ChipSet = run.first().into_iter().collect();
    loop {
        let mut next = reached;
        for (id, linked) in &links {
            if reached.contains(*id) {
                next = next.union(linked.intersection(run));
            } else if !linked.intersection(reached).is_empty() {
                next.insert(*id);
            }
        }
        if next == reached {
            return Some(reached == run);
        }
        reached = next;
    }
}

/// Are these the sixteen chips of a 4×4 torus, by their links?
#[must_use]
pub fn is_torus(chips: &[Chip]) -> bool {
    chips.len() == 16 && chips.iter().all(|chip| chip.linked == Some(Links::Torus4x4.set(chip.id, 16)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{DeviceNumber, Health};

    fn of(links: Links, id: u32, count: u32) -> Vec<u32> {
        links.of(ChipId::new(id).unwrap(), count).into_iter().map(ChipId::index).collect()
    }

    fn chips(links: Links, count: u32) -> Vec<Chip> {
        (0..count)
            .map(|minor| {
                let id = ChipId::new(minor).unwrap();
                Chip {
                    id,
                    number: DeviceNumber { major: 240, minor },
                    cores: Some(2),
                    linked: Some(links.set(id, count)),
                    architecture: None,
                    health: Health::Ready,
                    node: None,
                }
            })
            .collect()
    }

    fn run(first: u32, len: u32) -> ChipSet {
        ChipSet::run(ChipId::new(first).unwrap(), len).unwrap()
    }

    /// Values from the driver's sysfs, as field notes quote them.
    #[test]
    fn the_torus_lists_neighbours_in_the_drivers_order() {
        assert_eq!(of(Links::Torus4x4, 0, 16), [12, 3, 4, 1]);
        assert_eq!(of(Links::Torus4x4, 5, 16), [1, 4, 9, 6]);
        assert_eq!(of(Links::Torus4x4, 15, 16), [11, 14, 3, 12]);
    }

    #[test]
    fn rings_close_and_lines_do_not() {
        assert_eq!(of(Links::Ring, 0, 12), [11, 1]);
        assert_eq!(of(Links::Ring, 0, 2), [1]);
        assert_eq!(of(Links::Ring, 0, 1), [] as [u32; 0]);
        assert_eq!(of(Links::Line, 0, 6), [1]);
        assert_eq!(of(Links::Line, 5, 6), [4]);
        assert_eq!(of(Links::Line, 3, 6), [2, 4]);
        assert_eq!(of(Links::None, 0, 1), [] as [u32; 0]);
    }

    #[test]
    fn chips_3_and_4_of_a_torus_are_not_linked() {
        let torus = chips(Links::Torus4x4, 16);
        assert_eq!(connected(&torus, run(3, 2)), Some(false));
        assert_eq!(connected(&torus, run(2, 2)), Some(true));
        assert_eq!(connected(&torus, run(2, 4)), Some(false));
        assert_eq!(connected(&torus, run(0, 5)), Some(true));
        assert!(is_torus(&torus));
        assert!(!is_torus(&chips(Links::Ring, 16)));
    }

    #[test]
    fn a_link_that_only_one_side_names_counts() {
        let mut line = chips(Links::Line, 3);
        line[0].linked = Some(ChipSet::EMPTY);
        line[2].linked = Some(ChipSet::EMPTY);
        assert_eq!(connected(&line, run(0, 3)), Some(true));
        line[1].linked = None;
        assert_eq!(connected(&line, run(0, 3)), None);
        assert_eq!(connected(&line, run(1, 1)), Some(true));
    }

    /// Type, chips, cores a chip, links, vCPU and GiB: typed off the sources that the table's header names.
    #[test]
    fn the_table_holds_every_instance_type() {
        use Links::{Line, None, Ring, Torus4x4};
        let expected = [
            ("inf1.xlarge", 1, 4, None, 4, 8),
            ("inf1.2xlarge", 1, 4, None, 8, 16),
            ("inf1.6xlarge", 4, 4, Ring, 24, 48),
            ("inf1.24xlarge", 16, 4, Ring, 96, 192),
            ("inf2.xlarge", 1, 2, None, 8, 16),
            ("inf2.8xlarge", 1, 2, None, 32, 64),
            ("inf2.24xlarge", 6, 2, Line, 96, 384),
            ("inf2.48xlarge", 12, 2, Ring, 192, 768),
            ("trn1.2xlarge", 1, 2, None, 8, 32),
            ("trn1.32xlarge", 16, 2, Torus4x4, 128, 512),
            ("trn1n.32xlarge", 16, 2, Torus4x4, 128, 512),
            ("trn2.3xlarge", 1, 8, None, 12, 128),
            ("trn2.48xlarge", 16, 8, Torus4x4, 192, 2048),
            ("trn2u.48xlarge", 16, 8, Torus4x4, 192, 2048),
        ];
        let table = instance_types();
        let found: Vec<_> =
            table.iter().map(|row| (row.name.as_str(), row.chips, row.cores, row.links, row.vcpu, row.memory_gib)).collect();
        assert_eq!(found, expected);
    }
}
