//! What a grant means inside the container: the names of its nodes, its cores, its environment.
//!
//! Pure. `select` has chosen the chips; `spec` writes what is worked out here.

mod node;

use serde::Deserialize;

use crate::chip::{Chip, ChipSet, Inventory};
use crate::cores::Share;
use crate::request::{Invalid, VISIBLE_DEVICES};
pub use node::{Device, EFA_FOLDER, EFA_NAME, Node, argument, parse_argument};

/// The first driver that maps renumbered nodes itself (AWS's Kubernetes plugin asks for it).
const RENUMBERING_DRIVER: [u32; 3] = [2, 12, 14];

/// The container's word on its cores, by index, range or list.
pub const VISIBLE_CORES: &str = "NEURON_RT_VISIBLE_CORES";
/// The container's word on how many cores it takes.
pub const NUM_CORES: &str = "NEURON_RT_NUM_CORES";
/// Physical cores of a logical one, Trainium2 and later.
pub const LOGICAL_CONFIG: &str = "NEURON_LOGICAL_NC_CONFIG";
/// The older name of [`LOGICAL_CONFIG`].
const VIRTUAL_SIZE: &str = "NEURON_RT_VIRTUAL_CORE_SIZE";

/// When Elastic Fabric Adapters come along with chips.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Efa {
    /// Never.
    #[default]
    Off,
    /// To a container that is granted every chip of the host.
    WholeHost,
}

/// How the nodes of a grant are called in the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Naming {
    /// As the driver's version allows.
    #[default]
    Auto,
    /// `/dev/neuron0`, `/dev/neuron1`, … whichever chips they are.
    Container,
    /// As on the host.
    Host,
}

/// What a container gets with its chips.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// The nodes, ascending by chip.
    pub nodes: Vec<Node>,
    /// Variables to set, in this order.
    pub env: Vec<(String, String)>,
}

/// The container's and the host's word on cores and names.
pub struct Wishes<'a> {
    /// How nodes are called.
    pub naming: Naming,
    /// A variable of the container.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The host's `/opt/aws/neuron/logical_nc_config`: its path and the value of `NEURON_LOGICAL_NC_CONFIG` in it.
    pub host_logical: Option<(String, String)>,
}

/// Works out what a container with these chips gets.
///
/// # Errors
/// [`Invalid`]: cores that it will not have, a logical core of a size that does not exist, or a chip whose cores are not known.
pub fn terms(inventory: &Inventory, chips: ChipSet, share: Option<Share>, wishes: &Wishes<'_>) -> Result<Terms, Invalid> {
    let granted: Vec<&Chip> = inventory.chips.iter().filter(|chip| chips.contains(chip.id)).collect();
    let renumber = match wishes.naming {
        Naming::Container => true,
        Naming::Host => false,
        Naming::Auto => renumbers(inventory.driver_version.as_deref()),
    };
    let mut nodes = Vec::new();
    for (position, chip) in granted.iter().enumerate() {
        let name = if renumber { format!("neuron{position}") } else { chip.id.node_name() };
        // A chip without a node is Missing, and never chosen.
        let Some(host) = chip.node else { continue };
        nodes.push(Node { device: Device::Chip(chip.id), path: format!("/dev/{name}"), number: chip.number, host });
    }
    let mut env = vec![(VISIBLE_DEVICES.to_owned(), list(chips))];
    let Lnc { size: lnc, from_host } = lnc(inventory, wishes)?;
    if from_host {
        // The Neuron runtime does not read the host's file.
        env.push((LOGICAL_CONFIG.to_owned(), lnc.to_string()));
    }
    let mut all = 0_u32;
    for chip in &granted {
        all = all.saturating_add(chip.cores.ok_or(Invalid::UnknownCores(chip.id))?);
    }
    // Where the first chip's cores begin on the host; with the host's names the container counts them as the host does.
    let base = granted.first().map_or(0, |chip| chip.id.index().saturating_mul(chip.cores.unwrap_or(0)));
    let (first, count) = share.map_or((base, all), |share| (share.cores.first(), share.cores.len()));
    let first = if renumber { first.saturating_sub(base) } else { first };
    let [first, count] = [first, count].map(|cores| cores.checked_div(lnc).unwrap_or(cores));
    if let Some(value) = (wishes.env)(VISIBLE_CORES) {
        check_visible(&value, first, count)?;
    } else if share.is_some() {
        // Even where the container says how many: any so many would not do.
        env.push((VISIBLE_CORES.to_owned(), numbers(first, count)));
    } else if (wishes.env)(NUM_CORES).is_none() {
        env.push((NUM_CORES.to_owned(), count.to_string()));
    }
    Ok(Terms { nodes, env })
}

/// Numbers as the Neuron runtime reads them: `2`, `2-3`.
fn numbers(first: u32, count: u32) -> String {
    if count == 1 { first.to_string() } else { format!("{first}-{}", first.saturating_add(count).saturating_sub(1)) }
}

/// The ids one by one, `4,5`, as AWS's hook writes them.
fn list(chips: ChipSet) -> String {
    chips.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

/// Does this driver map the first node of a container to the chip that it is? Unknown counts as new.
fn renumbers(version: Option<&str>) -> bool {
    let Some(version) = version else { return true };
    let parts: Vec<u32> = version.trim().split('.').map_while(|part| part.parse().ok()).collect();
    parts.is_empty() || parts.as_slice() >= &RENUMBERING_DRIVER[..]
}

/// The LNC of a container: how many physical cores make a logical one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lnc {
    /// 1 or 2.
    pub size: u32,
    /// Is this the host's word, of which the container does not know?
    from_host: bool,
}

/// The LNC that a container on this host has.
///
/// # Errors
/// [`Invalid::LogicalCores`]: its or the host's word is none that exists.
pub fn lnc(inventory: &Inventory, wishes: &Wishes<'_>) -> Result<Lnc, Invalid> {
    // An instance has chips of one kind.
    if !inventory.chips.first().is_some_and(|chip| has_logical_cores(chip.architecture.as_deref())) {
        return Ok(Lnc { size: 1, from_host: false });
    }
    let said = [LOGICAL_CONFIG, VIRTUAL_SIZE].into_iter().find_map(|name| Some((name.to_owned(), (wishes.env)(name)?)));
    let from_host = said.is_none() && wishes.host_logical.is_some();
    let Some((origin, value)) = said.or_else(|| wishes.host_logical.clone()) else { return Ok(Lnc { size: 2, from_host }) };
    let size = match value.trim() {
        "1" => 1,
        "2" => 2,
        _ => return Err(Invalid::LogicalCores { origin, value }),
    };
    Ok(Lnc { size, from_host })
}

/// Trainium2 and later group physical cores to logical ones.
fn has_logical_cores(architecture: Option<&str>) -> bool {
    architecture.and_then(|name| name.strip_prefix("Trainium")?.parse::<u32>().ok()).is_some_and(|generation| generation >= 2)
}

/// Are all named cores among the `count` from `first` on? What is not a list of cores is left to the Neuron runtime.
fn check_visible(value: &str, first: u32, count: u32) -> Result<(), Invalid> {
    let beyond = value.split(',').flat_map(|item| item.split('-')).any(|number| match number.trim().parse::<u32>() {
        Ok(core) => !(first..first.saturating_add(count)).contains(&core),
        Err(_) => false,
    });
    if beyond {
        return Err(Invalid::VisibleCores { value: value.to_owned(), cores: numbers(first, count) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{ChipId, DeviceNumber, Health, HostNode};
    use crate::topology::instance_type;

    fn inventory(kind: &str, driver: Option<&str>) -> Inventory {
        let row = instance_type(kind).unwrap();
        let chip = |minor| Chip {
            id: ChipId::new(minor).unwrap(),
            number: DeviceNumber { major: 240, minor },
            cores: Some(row.cores),
            linked: None,
            architecture: Some(row.architecture.clone()),
            health: Health::Ready,
            node: Some(HostNode { mode: 0o666, uid: 0, gid: 0 }),
        };
        Inventory { chips: (0..row.chips).map(chip).collect(), instance_type: None, driver_version: driver.map(str::to_owned) }
    }

    fn run(first: u32, len: u32) -> ChipSet {
        ChipSet::run(ChipId::new(first).unwrap(), len).unwrap()
    }

    fn given(kind: &str, chips: ChipSet, env: &[(&str, &str)], naming: Naming, host: Option<&str>) -> Result<Terms, Invalid> {
        let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let host_logical = host.map(|value| ("/opt/aws/neuron/logical_nc_config".to_owned(), value.to_owned()));
        terms(&inventory(kind, Some("2.24.7.0")), chips, None, &Wishes { naming, env: &env, host_logical })
    }

    fn env_of(terms: &Terms) -> Vec<String> {
        terms.env.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// Cores by hand: chips × cores a chip ÷ physical cores of a logical one.
    #[test]
    fn the_environment_tells_chips_and_cores() {
        for (kind, chips, env, host, expected) in [
            ("trn1.32xlarge", run(4, 2), &[][..], None, &["AWS_NEURON_VISIBLE_DEVICES=4,5", "NEURON_RT_NUM_CORES=4"][..]),
            ("inf1.24xlarge", run(0, 3), &[], None, &["AWS_NEURON_VISIBLE_DEVICES=0,1,2", "NEURON_RT_NUM_CORES=12"]),
            ("trn2.48xlarge", run(15, 1), &[], None, &["AWS_NEURON_VISIBLE_DEVICES=15", "NEURON_RT_NUM_CORES=4"]),
            (
                "trn2.48xlarge",
                run(0, 2),
                &[("NEURON_LOGICAL_NC_CONFIG", "1")],
                Some("2"),
                &["AWS_NEURON_VISIBLE_DEVICES=0,1", "NEURON_RT_NUM_CORES=16"],
            ),
            (
                "trn2.48xlarge",
                run(0, 1),
                &[("NEURON_RT_VIRTUAL_CORE_SIZE", "1")],
                None,
                &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_RT_NUM_CORES=8"],
            ),
            (
                "trn2.48xlarge",
                run(0, 1),
                &[],
                Some("1"),
                &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_LOGICAL_NC_CONFIG=1", "NEURON_RT_NUM_CORES=8"],
            ),
            // Logical cores are Trainium2's; elsewhere the words are not ours to judge.
            (
                "trn1.32xlarge",
                run(0, 1),
                &[("NEURON_LOGICAL_NC_CONFIG", "7")],
                Some("1"),
                &["AWS_NEURON_VISIBLE_DEVICES=0", "NEURON_RT_NUM_CORES=2"],
            ),
            // A script's own word stays.
            ("trn1.32xlarge", run(0, 1), &[("NEURON_RT_NUM_CORES", "1")], None, &["AWS_NEURON_VISIBLE_DEVICES=0"]),
            ("trn1.32xlarge", run(0, 1), &[("NEURON_RT_VISIBLE_CORES", "1")], None, &["AWS_NEURON_VISIBLE_DEVICES=0"]),
        ] {
            assert_eq!(env_of(&given(kind, chips, env, Naming::Auto, host).unwrap()), expected, "{kind} {chips} {env:?}");
        }
    }

    #[test]
    fn a_logical_core_has_one_or_two_physical_ones() {
        for (env, host) in [(Some("3"), None), (Some(""), None), (None, Some("x"))] {
            let env: Vec<_> = env.map(|value| ("NEURON_LOGICAL_NC_CONFIG", value)).into_iter().collect();
            let refused = given("trn2.48xlarge", run(0, 1), &env, Naming::Auto, host);
            assert!(matches!(refused, Err(Invalid::LogicalCores { .. })), "{env:?} {host:?}");
        }
    }

    #[test]
    fn nodes_are_renumbered_where_the_driver_can() {
        let paths = |terms: Terms| terms.nodes.into_iter().map(|node| (node.path, node.number.minor)).collect::<Vec<_>>();
        let renamed = vec![("/dev/neuron0".to_owned(), 4), ("/dev/neuron1".to_owned(), 5)];
        let kept = vec![("/dev/neuron4".to_owned(), 4), ("/dev/neuron5".to_owned(), 5)];
        for (driver, naming, expected) in [
            (Some("2.12.14.0"), Naming::Auto, &renamed),
            (Some("2.12.13.99"), Naming::Auto, &kept),
            (Some("2.9.0"), Naming::Auto, &kept),
            (Some("10.0.0"), Naming::Auto, &renamed),
            (Some("junk"), Naming::Auto, &renamed),
            (None, Naming::Auto, &renamed),
            (Some("2.9.0"), Naming::Container, &renamed),
            (Some("2.24.7"), Naming::Host, &kept),
        ] {
            let wishes = Wishes { naming, env: &|_| None, host_logical: None };
            let terms = terms(&inventory("trn1.32xlarge", driver), run(4, 2), None, &wishes).unwrap();
            assert_eq!(&paths(terms), expected, "{driver:?} {naming:?}");
        }
    }

    /// Two trn1 chips have four cores: 0-3 when renumbered; with the host's names chips 4 and 5 have 8-11.
    #[test]
    fn cores_that_the_container_will_not_have_are_refused() {
        for (value, naming, allowed) in [
            ("0-3", Naming::Container, true),
            ("0,3", Naming::Container, true),
            ("8-11", Naming::Container, false),
            ("3-4", Naming::Container, false),
            ("8-11", Naming::Host, true),
            ("0-3", Naming::Host, false),
            ("whatever", Naming::Container, true),
        ] {
            let answer = given("trn1.32xlarge", run(4, 2), &[("NEURON_RT_VISIBLE_CORES", value)], naming, None);
            assert_eq!(answer.is_ok(), allowed, "{value} {naming:?}");
            if let Err(refused) = answer {
                let cores = if naming == Naming::Host { "8-11" } else { "0-3" };
                assert!(refused.to_string().contains(&format!("the container will have the cores {cores},")), "{refused}");
            }
        }
    }

    #[test]
    fn node_arguments_are_read_as_they_are_written() {
        let (id, number) = (ChipId::new(4).unwrap(), DeviceNumber { major: 240, minor: 4 });
        assert_eq!(argument(Device::Chip(id), "/dev/neuron0", number), "4=/dev/neuron0=240:4");
        assert_eq!(parse_argument("4=/dev/neuron0=240:4"), Some((Device::Chip(id), "/dev/neuron0", number)));
        assert_eq!(parse_argument("4=/dev/a=b=240:4"), Some((Device::Chip(id), "/dev/a=b", number)));
        for junk in ["", "4", "4=/dev/neuron0", "64=/dev/neuron0=240:4", "x=/dev/neuron0=240:4", "4=/dev/neuron0=240"] {
            assert_eq!(parse_argument(junk), None, "{junk}");
        }
    }
}
