//! The roots of the host, and the discovery of its chips.
//!
//! Reads sysfs, `/dev` and DMI under the roots; writes nothing. Each file format has a pure `parse_` twin. The roots are the only
//! thing that tests replace: `host-root` moves all of them but `/proc` and `/etc`.

mod efa;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{FileType, Stat};

use crate::chip::{Chip, ChipId, ChipSet, DeviceNumber, Health, HostNode, Inventory};
use crate::kernel::{self, Folder, Limit};
use crate::settings::Settings;
use crate::topology::{self, InstanceType, Links};

/// How long to wait for the driver's files, seconds; they take some microseconds each.
const LONGEST_DISCOVERY: u32 = 5;

/// Where a host keeps what this tool looks at.
#[derive(Debug, Clone)]
pub struct Host {
    /// The folder that stands for `/`.
    pub root: PathBuf,
    /// `/sys`
    pub sys: PathBuf,
    /// `/dev`
    pub dev: PathBuf,
    /// `/proc`, never moved: leases are about real processes.
    pub proc: PathBuf,
    /// The folder of lock and ledger.
    pub state: PathBuf,
    /// Was that folder, or a simulated host, chosen by hand?
    pub own_state: bool,
    /// The log.
    pub log: PathBuf,
}

impl Host {
    /// The host that the settings name.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let root = settings.host_root.clone().unwrap_or_else(|| PathBuf::from("/"));
        let simulated = root != Path::new("/");
        Self {
            sys: root.join("sys"),
            dev: root.join("dev"),
            proc: PathBuf::from("/proc"),
            state: settings.state_dir.clone().unwrap_or_else(|| root.join("run/neuron-container-runtime")),
            own_state: settings.state_dir.is_some() || simulated,
            log: settings.log_file.clone().unwrap_or_else(|| root.join("var/log/neuron-container-runtime.log")),
            root,
        }
    }

    /// Is this a folder that stands for a host, where regular files may stand for nodes?
    #[must_use]
    pub fn simulated(&self) -> bool {
        self.root != Path::new("/")
    }

    /// Finds the chips. A host without any is an empty inventory.
    ///
    /// # Errors
    /// What is there cannot be read or understood: then nothing is known to be free.
    pub fn discover(&self) -> Result<Inventory> {
        // A driver in trouble may let a reader of its files wait for ever.
        let _limit = Limit::new(LONGEST_DISCOVERY);
        if self.simulated() && !self.root.is_dir() {
            bail!("the host root {} is not there: neuron-ctk simulate makes one", self.root.display());
        }
        let instance_type = read_optional(&self.sys.join("class/dmi/id/product_name"))?.map(|text| text.trim().to_owned());
        let driver_version = read_optional(&self.sys.join("module/neuron/version"))?.map(|text| text.trim().to_owned());
        let class = self.sys.join("class/neuron_device");
        let mut chips = match Folder::open(&class) {
            Ok(class) => self.sysfs_chips(&class)?,
            Err(error) if error.kind() == ErrorKind::NotFound => self.dev_chips()?,
            Err(error) => return Err(unreadable(&class, error)),
        };
        // The table is asked only where sysfs is silent.
        let silent = |chip: &Chip| chip.cores.is_none() || chip.linked.is_none() || chip.architecture.is_none();
        if chips.iter().any(silent)
            && let Some(row) = instance_type.as_deref().and_then(topology::instance_type)
        {
            let present = chips.iter().map(|chip| chip.id).collect();
            chips.iter_mut().for_each(|chip| complete(chip, &row, present));
        }
        Ok(Inventory { chips, instance_type, driver_version })
    }

    /// The host's word on logical cores: its file, and what it says there.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn logical_config(&self) -> Result<Option<(String, String)>> {
        let path = self.root.join("opt/aws/neuron/logical_nc_config");
        let value = read_optional(&path)?.and_then(|text| parse_logical(&text));
        Ok(value.map(|value| (path.display().to_string(), value)))
    }

    fn sysfs_chips(&self, class: &Folder) -> Result<Vec<Chip>> {
        let nodes = Folder::open(&self.dev);
        let ids = ids_in(class)?;
        // An instance has chips of one kind, so what they are is read once.
        let Some(first) = ids.first().map(|id| id.node_name()) else { return Ok(Vec::new()) };
        let cores = readable(class, &format!("{first}/core_count"))?.and_then(|text| text.trim().parse().ok());
        let name = readable(class, &format!("{first}/info/architecture/device_name"))?;
        let name = name.map(|text| text.trim().to_owned()).filter(|name| !name.is_empty());
        // The driver gives chip N the minor N; where the first file says so too, each node shows its number.
        let base = number_in(class, &first)?;
        let in_order = ids.first().is_some_and(|id| base.minor == id.index());
        let links = |folder: &str| anyhow::Ok(readable(class, &format!("{folder}/connected_devices"))?.and_then(|text| parse_connected(&text)));
        // For Trainium it has one table of links (fw_io_topology of its v2 and v3), which the first line of sixteen shows.
        let sixteen = ids.iter().map(|id| id.index()).eq(0..16);
        let torus = sixteen && links(&first)? == ids.first().map(|id| Links::Torus4x4.set(*id, 16));
        let chip = |id: ChipId| {
            let folder = id.node_name();
            let stat = nodes.as_ref().map(|nodes| nodes.stat(&folder));
            let seen = matches!(&stat, Ok(Ok(stat)) if is_node(stat) && number_of(stat.st_rdev) == base.of_minor(id.index()));
            let mut health = ready(class, &folder);
            let vanished = matches!(health, Health::Missing(_));
            let number = if in_order && seen || vanished { base.of_minor(id.index()) } else { number_in(class, &folder)? };
            let node = match stat {
                Ok(Ok(stat)) => self.node(&stat, number),
                Ok(Err(error)) => Err(format!(": {error}")),
                Err(error) => Err(format!(": {error}")),
            };
            let node = node.map_err(|why| health = Health::Missing(format!("missing: {}{why}", self.dev.join(&folder).display()))).ok();
            let linked = if torus { Some(Links::Torus4x4.set(id, 16)) } else { links(&folder)? };
            Ok(Chip { id, number, cores, linked, architecture: name.clone(), health, node })
        };
        ids.iter().copied().map(chip).collect()
    }

    /// Drivers without sysfs: the nodes themselves.
    fn dev_chips(&self) -> Result<Vec<Chip>> {
        let nodes = match Folder::open(&self.dev) {
            Ok(nodes) => nodes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.dev, error)),
        };
        let ids = ids_in(&nodes)?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let devices = read_optional(&self.proc.join("devices"))?.unwrap_or_default();
        let driver = parse_major(&devices);
        let mut chips = Vec::new();
        for id in ids {
            let name = id.node_name();
            let stat = nodes.stat(&name).with_context(|| format!("{} cannot be looked at", nodes.path.join(&name).display()))?;
            let number = number_of(stat.st_rdev);
            // Nodes that a driver left behind, or that are no nodes at all.
            let of_driver = self.simulated() || driver == Some(number.major);
            if !is_node(&stat) || !of_driver {
                continue;
            }
            let node = Some(host_node(&stat));
            chips.push(Chip { id, number, cores: None, linked: None, architecture: None, health: Health::Ready, node });
        }
        Ok(chips)
    }

    /// The node of the chip with this number, or what is wrong with it.
    fn node(&self, stat: &Stat, number: DeviceNumber) -> Result<HostNode, String> {
        let drivers = is_node(stat) && number_of(stat.st_rdev) == number;
        let stands_in = self.simulated() && FileType::from_raw_mode(stat.st_mode).is_file();
        if drivers || stands_in { Ok(host_node(stat)) } else { Err(format!(" is not the driver's node {number}")) }
    }

    /// Can these chips, which were ready a moment ago, still be opened?
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn still_ready(&self, ids: impl Iterator<Item = ChipId>) -> Result<()> {
        let class = match Folder::open(&self.sys.join("class/neuron_device")) {
            Ok(class) => class,
            // Drivers without sysfs.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => bail!("whether the chips are ready cannot be read: {error}"),
        };
        for id in ids {
            let name = id.node_name();
            match class.text(&format!("{name}/reset")) {
                // Drivers without such a file have the folder.
                Err(error) if error.kind() == ErrorKind::NotFound && class.stat(&format!("{name}/dev")).is_ok() => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    bail!("chip {id} is gone from this host (was the driver unloaded?)")
                }
                Err(error) => bail!("whether chip {id} is ready cannot be read: {error}"),
                Ok(text) => {
                    if let Health::Unhealthy(why) = parse_reset(&text) {
                        bail!("chip {id} is {why}");
                    }
                }
            }
        }
        Ok(())
    }
}

/// The number of a chip, as its sysfs folder says it.
fn number_in(class: &Folder, folder: &str) -> Result<DeviceNumber> {
    let path = format!("{folder}/dev");
    let text = class.text(&path).map_err(|error| unreadable(&class.path.join(&path), error))?;
    let number = text.trim().parse();
    number.map_err(|()| anyhow::anyhow!("{} holds no device number but {text:?}", class.path.join(&path).display()))
}

/// What sysfs `reset` says.
fn ready(class: &Folder, folder: &str) -> Health {
    let name = format!("{folder}/reset");
    let why = match class.text(&name) {
        Ok(text) => return parse_reset(&text),
        // Drivers before there was such a file have the folder, and not only a link to where it was.
        Err(error) if error.kind() == ErrorKind::NotFound => match class.stat(&format!("{folder}/dev")) {
            Ok(_) => return Health::Ready,
            Err(_) => return Health::Missing(format!("missing: {} leads nowhere", class.path.join(folder).display())),
        },
        Err(error) if error.kind() == ErrorKind::PermissionDenied => " is root's to read".to_owned(),
        Err(error) => format!(": {error}"),
    };
    Health::Unknown(format!("not known to be ready: {}{why}", class.path.join(&name).display()))
}

/// Fills in from the table what sysfs does not tell.
fn complete(chip: &mut Chip, row: &InstanceType, present: ChipSet) {
    chip.cores = chip.cores.or(Some(row.cores));
    chip.linked = chip.linked.or_else(|| Some(row.links.set(chip.id, row.chips).intersection(present)));
    chip.architecture = chip.architecture.take().or_else(|| Some(row.architecture.clone()));
}

/// The ids N of the entries `neuronN` of a folder, ascending by number.
fn ids_in(folder: &Folder) -> Result<Vec<ChipId>> {
    let entries = kernel::entries(folder).map_err(|error| unreadable(&folder.path, error))?;
    let mut ids: Vec<_> = entries.iter().filter_map(|(name, _)| parse_node_name(name.to_str().ok()?)).collect();
    ids.sort_unstable();
    Ok(ids)
}

/// `neuron12`, without a leading zero.
#[must_use]
pub fn parse_node_name(name: &str) -> Option<ChipId> {
    let index = name.strip_prefix("neuron")?;
    let id = ChipId::new(index.parse().ok()?)?;
    (id.to_string() == index).then_some(id)
}

/// sysfs `connected_devices`: `12, 3, 4, 1`. Only a newline, or a NUL byte: the driver does not tell.
fn parse_connected(text: &str) -> Option<ChipSet> {
    let text = text.trim();
    if text.is_empty() || text.contains('\0') {
        return None;
    }
    text.split(',').map(|id| ChipId::new(id.trim().parse().ok()?)).collect()
}

/// sysfs `reset`: 1 when the chip can be opened, 0 while it resets, 2 when it is invalid (neuron_sysfs_metrics.c).
#[must_use]
pub fn parse_reset(text: &str) -> Health {
    match text.trim() {
        "1" => Health::Ready,
        "0" => Health::Unhealthy("resetting (sysfs reset reads 0)".to_owned()),
        "2" => Health::Unhealthy("invalid (sysfs reset reads 2)".to_owned()),
        other => Health::Unhealthy(format!("in an unknown state (sysfs reset reads {})", crate::words::quoted(other))),
    }
}

/// The major of `neuron` in `/proc/devices`.
fn parse_major(devices: &str) -> Option<u32> {
    let characters = devices.split("Block devices:").next()?;
    characters.lines().find_map(|line| line.trim().strip_suffix(" neuron")?.parse().ok())
}

/// The majors of `/proc/devices`' character devices.
#[must_use]
pub fn parse_majors(devices: &str) -> Vec<u32> {
    let characters = devices.split("Block devices:").next().unwrap_or_default();
    characters.lines().filter_map(|line| line.trim().split_once(' ')?.0.parse().ok()).collect()
}

/// `NEURON_LOGICAL_NC_CONFIG=1`, as a line.
fn parse_logical(text: &str) -> Option<String> {
    text.lines().rev().find_map(|line| line.trim().strip_prefix("NEURON_LOGICAL_NC_CONFIG=")).map(|value| value.trim().to_owned())
}

/// The numbers of a device node, from its `st_rdev`.
#[must_use]
pub fn number_of(rdev: u64) -> DeviceNumber {
    let part = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    DeviceNumber { major: part(nix::sys::stat::major(rdev)), minor: part(nix::sys::stat::minor(rdev)) }
}

fn host_node(stat: &Stat) -> HostNode {
    HostNode { mode: stat.st_mode & 0o777, uid: stat.st_uid, gid: stat.st_gid }
}

fn is_node(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_char_device()
}

/// A file that may be missing.
fn read_optional(path: &Path) -> Result<Option<String>> {
    match kernel::text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(path, error)),
    }
}

/// A file of a chip that may be missing, or root's alone.
fn readable(class: &Folder, name: &str) -> Result<Option<String>> {
    match class.text(name) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => Ok(None),
        Err(error) => Err(unreadable(&class.path.join(name), error)),
    }
}

fn unreadable(path: &Path, error: io::Error) -> anyhow::Error {
    anyhow::Error::from(error).context(format!("{} cannot be read", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u32]) -> ChipSet {
        ids.iter().map(|id| ChipId::new(*id).unwrap()).collect()
    }

    #[test]
    fn links_are_a_list_or_not_known() {
        for (text, links) in [
            ("12, 3, 4, 1\n", Some(set(&[1, 3, 4, 12]))),
            ("1", Some(set(&[1]))),
            ("\n", None),
            ("", None),
            ("\0", None),
            ("1, x\n", None),
            ("64\n", None),
        ] {
            assert_eq!(parse_connected(text), links, "{text:?}");
        }
    }

    #[test]
    fn only_1_is_ready() {
        assert_eq!(parse_reset("1\n"), Health::Ready);
        assert_eq!(parse_reset("1"), Health::Ready);
        for text in ["0\n", "2\n", "", "11", "ready"] {
            assert!(matches!(parse_reset(text), Health::Unhealthy(_)), "{text:?}");
        }
    }

    #[test]
    fn names_are_plain_numbers() {
        assert_eq!(parse_node_name("neuron12"), ChipId::new(12));
        for name in ["neuron", "neuron64", "neuron01", "neuron-1", "neuron1 ", "neuron+1", "Neuron1", "neuron0x"] {
            assert_eq!(parse_node_name(name), None, "{name}");
        }
    }

    #[test]
    fn the_drivers_major_is_a_character_devices() {
        let devices = "Character devices:\n  1 mem\n248 neuron\n250 neuronal\n\nBlock devices:\n259 blkext\n240 neuron\n";
        assert_eq!(parse_major(devices), Some(248));
        assert_eq!(parse_majors(devices), [1, 248, 250]);
        assert_eq!(parse_major("Block devices:\n240 neuron\n"), None);
    }

    #[test]
    fn the_last_word_on_logical_cores_counts() {
        assert_eq!(parse_logical("# x\nNEURON_LOGICAL_NC_CONFIG=2\nNEURON_LOGICAL_NC_CONFIG= 1\n").as_deref(), Some("1"));
        assert_eq!(parse_logical("#NEURON_LOGICAL_NC_CONFIG=2\n"), None);
    }
}
